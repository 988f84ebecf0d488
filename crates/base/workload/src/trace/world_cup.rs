//! The binary record of the 1998 World Cup logs: 20 bytes, big-endian.

use crate::trace::format::RECORD_BYTES;
use crate::trace::method::Method;

/// Value of the size field if the size of the response is unknown.
const NO_SIZE: u32 = u32::MAX;
/// Number of file types; 12 is "other".
const TYPES: u8 = 13;
/// Type of responses computed by the server.
const DYNAMIC_TYPE: u8 = 6;
const OTHER_TYPE: u8 = 12;
/// Status codes by index. Index 37 is "other", for which the code is 0.
const STATUS: [u16; 38] = [
    100, 101, 200, 201, 202, 203, 204, 205, 206, 300, 301, 302, 303, 304, 305, 400, 401, 402, 403,
    404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 500, 501, 502, 503, 504, 505, 0,
];

/// One record with the codes of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorldCupRecord {
    /// Unix seconds.
    pub time_s: u32,
    pub client: u32,
    /// Number of the object, which is a row of the object mappings.
    pub object: u32,
    /// Bytes of the response, if the record has them.
    pub size_bytes: Option<u32>,
    /// Code of the method, 0 to 8.
    pub method: u8,
    /// Code of the version, 0 to 3.
    pub version: u8,
    /// Index of the status code, 0 to 37.
    pub status_index: u8,
    /// Type of the file, 0 to 12.
    pub kind: u8,
    /// Region and host of the server.
    pub server: u8,
}

impl WorldCupRecord {
    /// Decodes a record; `None` if a code is invalid.
    #[inline]
    pub fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let (method, status, kind) = (bytes[16], bytes[17], bytes[18]);
        let status_index = status & 0x3f;
        if method > Method::Other as u8
            || usize::from(status_index) >= STATUS.len()
            || kind >= TYPES
        {
            return None;
        }
        let size = word(12);
        Some(Self {
            time_s: word(0),
            client: word(4),
            object: word(8),
            size_bytes: (size != NO_SIZE).then_some(size),
            method,
            version: status >> 6,
            status_index,
            kind,
            server: bytes[19],
        })
    }

    pub fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let words = [
            self.time_s,
            self.client,
            self.object,
            self.size_bytes.unwrap_or(NO_SIZE),
        ];
        for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes[16] = self.method;
        bytes[17] = self.version << 6 | self.status_index;
        bytes[18] = self.kind;
        bytes[19] = self.server;
        bytes
    }

    /// The status code; 0 for the index of "other".
    #[inline]
    pub fn status(&self) -> u16 {
        STATUS[usize::from(self.status_index)]
    }

    /// Whether the server computed the response.
    #[inline]
    pub fn is_dynamic(&self) -> bool {
        self.kind == DYNAMIC_TYPE
    }
}

/// Index of a status code; "other" if the format has none.
pub(crate) fn status_index(status: u16) -> u8 {
    STATUS
        .iter()
        .position(|known| *known == status)
        .unwrap_or(STATUS.len() - 1) as u8
}

/// The type of a file. The path of the file determines it.
pub(crate) fn kind_of_path(path: &[u8], dynamic: bool) -> u8 {
    if dynamic {
        return DYNAMIC_TYPE;
    }
    if path.ends_with(b"/") {
        return 10;
    }
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let suffix = name
        .rsplit(|byte| *byte == b'.')
        .next()
        .unwrap_or(name)
        .to_ascii_lowercase();
    match suffix.as_slice() {
        b"html" | b"htm" => 0,
        b"gif" | b"jpg" | b"jpeg" | b"png" | b"xbm" | b"bmp" => 1,
        b"wav" | b"au" | b"mp3" | b"ram" => 2,
        b"mpg" | b"mpeg" | b"avi" | b"mov" => 3,
        b"class" | b"jar" => 4,
        b"pdf" | b"ps" | b"doc" | b"rtf" => 5,
        b"txt" => 7,
        b"zip" | b"gz" | b"z" | b"tar" | b"hqx" => 8,
        b"exe" | b"bin" => 9,
        _ => OTHER_TYPE,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_that_is_read_is_written_back_byte_by_byte(bytes in any::<[u8; 20]>()) {
            let mut bytes = bytes;
            bytes[16] %= 10;
            bytes[18] %= 14;
            if let Some(record) = WorldCupRecord::decode(&bytes) {
                prop_assert_eq!(record.encode(), bytes);
                prop_assert_eq!(status_index(record.status()), record.status_index);
            }
        }
    }
}
