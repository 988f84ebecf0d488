//! The header of a WAV file (Multimedia Programming Interface, IBM and Microsoft,
//! 1991; WAVEFORMATEXTENSIBLE, Microsoft).

/// The format of a WAV file's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    /// Registered number of the encoding. If the format is extensible, the number inside the
    /// extension.
    pub tag: u16,
    /// Samples of one frame.
    pub channels: u16,
    /// Frames a second.
    pub sample_rate_hz: u32,
    pub frame_bytes: u16,
    pub sample_bits: u16,
    /// Offset of the samples in the file.
    pub data_offset: u64,
    /// Bytes of samples according to the header. The file may have fewer.
    pub data_bytes: u64,
}

/// The tag of extensible formats, whose GUID starts with the tag of the encoding.
const EXTENSIBLE: u16 = 0xfffe;

/// Whether bytes start with the header of a WAV file.
pub(crate) fn is_wav(head: &[u8]) -> bool {
    head.len() >= 12 && &head[..4] == b"RIFF" && &head[8..12] == b"WAVE"
}

/// Reads the chunks before the samples. `None` if the format or the samples are missing.
pub(crate) fn parse(head: &[u8]) -> Option<Format> {
    let mut at = 12;
    let mut format = None;
    while is_wav(head) {
        let chunk = head.get(at..at + 8)?;
        let bytes = u32::from_le_bytes([chunk[4], chunk[5], chunk[6], chunk[7]]);
        let body = at + 8;
        match &chunk[..4] {
            b"fmt " => format = Some(body),
            b"data" => {
                let start = format?;
                let fields = head.get(start..start + 16)?;
                let short = |place: usize| u16::from_le_bytes([fields[place], fields[place + 1]]);
                let mut tag = short(0);
                if tag == EXTENSIBLE {
                    // These come before the GUID: the 16 bytes of the format, the size of the
                    // extension, the valid bits and the channel mask.
                    let guid = head.get(start + 24..start + 26)?;
                    tag = u16::from_le_bytes([guid[0], guid[1]]);
                }
                return Some(Format {
                    tag,
                    channels: short(2),
                    sample_rate_hz: u32::from(short(4)) | u32::from(short(6)) << 16,
                    frame_bytes: short(12),
                    sample_bits: short(14),
                    data_offset: body as u64,
                    data_bytes: u64::from(bytes),
                });
            }
            _ => {}
        }
        // Chunks are padded to an even number of bytes.
        at = body
            .checked_add(bytes as usize)?
            .checked_add(bytes as usize & 1)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(tag: u16, between: &[u8]) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0".to_vec();
        bytes.extend(tag.to_le_bytes());
        bytes.extend([2, 0, 0x44, 0xac, 0, 0, 0x10, 0xb1, 2, 0, 4, 0, 16, 0]);
        bytes.extend(between);
        bytes.extend(*b"data\x08\0\0\0\x01\x02\x03\x04\x05\x06\x07\x08");
        bytes
    }

    #[test]
    fn samples_are_found_after_chunks_of_odd_length() {
        let format = parse(&file(1, b"LIST\x03\0\0\0abc\0")).unwrap();
        assert_eq!((format.channels, format.sample_rate_hz), (2, 44_100));
        assert_eq!((format.frame_bytes, format.sample_bits), (4, 16));
        assert_eq!((format.data_offset, format.data_bytes), (56, 8));
    }

    #[test]
    fn a_file_without_a_format_has_no_samples() {
        assert_eq!(parse(b"RIFF\0\0\0\0WAVEdata\x04\0\0\0abcd"), None);
    }

    proptest! {
        #[test]
        fn any_chunks_are_accepted(tail: Vec<u8>) {
            let head = [b"RIFF\0\0\0\0WAVE".as_slice(), &tail].concat();
            if let Some(format) = parse(&head) {
                prop_assert!(format.data_offset <= head.len() as u64);
            }
        }
    }
}
