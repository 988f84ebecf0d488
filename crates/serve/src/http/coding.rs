//! Which precompressed form of a file a client takes (RFC 9110, section 12.5.3).

/// A form in which a file can lie beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// As it is.
    Plain,
    /// `.gz`
    Gzip,
    /// `.br`
    Brotli,
    /// `.zst`
    Zstandard,
}

impl Coding {
    /// The compressed forms, the one preferred at equal weights first.
    pub const COMPRESSED: [Self; 3] = [Self::Brotli, Self::Zstandard, Self::Gzip];

    /// What is added to the file's name.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Gzip => ".gz",
            Self::Brotli => ".br",
            Self::Zstandard => ".zst",
        }
    }

    /// Its name in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "identity",
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstandard => "zstd",
        }
    }
}

/// A set of codings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings(u8);

impl Codings {
    /// With one more.
    #[must_use]
    pub fn with(self, coding: Coding) -> Self {
        Self(self.0 | 1 << coding as u8)
    }

    /// Whether it holds `coding`.
    #[must_use]
    pub fn has(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The best of the `available` codings for an `Accept-Encoding` field; plain if none is accepted.
#[must_use]
pub fn choose(accepted: &[u8], available: Codings) -> Coding {
    let mut best = (0, Coding::Plain);
    for coding in Coding::COMPRESSED {
        if available.has(coding) {
            let weight = weight_of(accepted, coding);
            if weight > best.0 {
                best = (weight, coding);
            }
        }
    }
    best.1
}

/// The weight, in thousandths, that the field gives a coding.
fn weight_of(accepted: &[u8], coding: Coding) -> u32 {
    let mut any = 0;
    for item in accepted.split(|&byte| byte == b',') {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let weight = parts
            .find_map(|part| part.strip_prefix(b"q=").or(part.strip_prefix(b"Q=")))
            .map_or(1000, thousandths);
        let same = name.eq_ignore_ascii_case(coding.name().as_bytes())
            || coding == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip");
        if same {
            return weight;
        }
        if name == b"*" {
            any = weight;
        }
    }
    any
}

/// `1`, `0.5` or `0.123` in thousandths; what is no weight counts as none.
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
        b"0" => (0..3).fold(0, |value, place| {
            value * 10
                + fraction
                    .get(place)
                    .map_or(0, |digit| u32::from(digit - b'0'))
        }),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_come_first_and_the_order_of_preference_second() {
        let all = Coding::COMPRESSED
            .into_iter()
            .fold(Codings::default(), Codings::with);
        let cases = [
            ("gzip", Coding::Gzip),
            ("gzip, br", Coding::Brotli),
            ("gzip;q=0.8, br;q=0.5", Coding::Gzip),
            ("br;q=0, *", Coding::Zstandard),
            ("identity", Coding::Plain),
            ("gzip;q=0", Coding::Plain),
            ("", Coding::Plain),
            ("GZIP ; Q=0.001", Coding::Gzip),
            ("gzip;q=x", Coding::Plain),
        ];
        for (field, coding) in cases {
            assert_eq!(choose(field.as_bytes(), all), coding, "{field}");
        }
        let only_gzip = Codings::default().with(Coding::Gzip);
        assert_eq!(choose(b"br, gzip", only_gzip), Coding::Gzip);
        assert_eq!(choose(b"br", only_gzip), Coding::Plain);
    }
}
