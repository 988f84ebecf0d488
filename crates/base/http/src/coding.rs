//! Content codings: which precompressed variant of a file a client accepts (RFC 9110, section
//! 12.5.3).

/// A content coding. Each compressed coding has a file name extension for precompressed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// No coding.
    Identity,
    /// `.gz`
    Gzip,
    /// `.br`
    Brotli,
    /// `.zst`
    Zstandard,
}

impl Coding {
    /// The compressed codings, in order of preference at equal weights.
    pub const COMPRESSED: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    /// The extension of a precompressed file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Gzip => ".gz",
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
        }
    }

    /// Its name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
        }
    }
}

/// A set of codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodingSet(u8);

impl CodingSet {
    /// The set with one more coding.
    #[must_use]
    pub fn with(self, coding: Coding) -> Self {
        Self(self.0 | 1 << coding as u8)
    }

    /// Whether `coding` is in the set.
    pub fn contains(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The best `available` coding for an `Accept-Encoding` field. Identity if the client accepts none
/// of them.
pub fn choose(accepted: &[u8], available: CodingSet) -> Coding {
    let mut best = (0, Coding::Identity);
    for coding in Coding::COMPRESSED {
        if available.contains(coding) {
            let weight = weight_of(accepted, coding);
            if weight > best.0 {
                best = (weight, coding);
            }
        }
    }
    best.1
}

/// A coding's weight in the field, in thousandths.
fn weight_of(accepted: &[u8], coding: Coding) -> u32 {
    let mut any = 0;
    for item in accepted.split(|&byte| byte == b',') {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = parts
            .find_map(|part| part.strip_prefix(b"q=").or(part.strip_prefix(b"Q=")))
            .map_or(1000, thousandths);
        let matches = name.eq_ignore_ascii_case(coding.name().as_bytes())
            || coding == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip");
        if matches {
            return weight;
        }
        if name == b"*" {
            any = weight;
        }
    }
    any
}

/// `1`, `0.5` or `0.123` in thousandths; 0 for any other text.
fn thousandths(text: &[u8]) -> u32 {
    let (whole, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &[][..]),
    };
    if fraction.len() > 3 || !fraction.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    match whole {
        b"1" => 1000,
        b"0" => (0..3).fold(0, |value, digit_index| {
            value * 10
                + fraction
                    .get(digit_index)
                    .map_or(0, |digit| u32::from(digit - b'0'))
        }),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_preference_decides_between_equal_weights() {
        let all = Coding::COMPRESSED
            .into_iter()
            .fold(CodingSet::default(), CodingSet::with);
        let cases = [
            ("gzip", Coding::Gzip),
            ("gzip, br", Coding::Brotli),
            ("gzip;q=0.8, br;q=0.5", Coding::Gzip),
            ("br;q=0, *", Coding::Zstandard),
            ("identity", Coding::Identity),
            ("gzip;q=0", Coding::Identity),
            ("", Coding::Identity),
            ("GZIP ; Q=0.001", Coding::Gzip),
            ("gzip;q=x", Coding::Identity),
        ];
        for (field, coding) in cases {
            assert_eq!(choose(field.as_bytes(), all), coding, "{field}");
        }
        let only_gzip = CodingSet::default().with(Coding::Gzip);
        assert_eq!(choose(b"br, gzip", only_gzip), Coding::Gzip);
        assert_eq!(choose(b"br", only_gzip), Coding::Identity);
    }
}
