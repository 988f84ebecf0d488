//! The path that a request target names (RFC 9112, section 3.2; RFC 3986, section 5.2.4).

/// Why a target names no path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// A `%` without two hexadecimal digits, or a byte NUL.
    Malformed,
    /// `..` beyond the root.
    Outside,
}

/// The part of a target before `?`, and what follows it.
#[must_use]
pub fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr2(b'?', b'#', target) {
        Some(at) if target[at] == b'?' => (&target[..at], &target[at + 1..]),
        Some(at) => (&target[..at], &[]),
        None => (target, &[]),
    }
}

/// An absolute form without its scheme and authority: `http://host/a` is `/a`.
///
/// `None` if the target is neither in origin form nor in absolute form.
#[must_use]
pub fn origin_form(target: &[u8]) -> Option<&[u8]> {
    if target.first() == Some(&b'/') {
        return Some(target);
    }
    let rest = [&b"http://"[..], b"https://"]
        .into_iter()
        .find_map(|scheme| {
            let (start, rest) = target.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        })?;
    match rest
        .iter()
        .position(|&byte| matches!(byte, b'/' | b'?' | b'#'))
    {
        Some(at) if rest[at] == b'/' => Some(&rest[at..]),
        _ => Some(b"/"),
    }
}

/// The path without escapes, empty segments, `.` and `..`; a slash at its end stays.
///
/// # Errors
/// It is malformed or leads out of the root.
pub fn normal_path(path: &[u8]) -> Result<Vec<u8>, TargetError> {
    let decoded = decode(path)?;
    let mut normal = Vec::with_capacity(decoded.len());
    let mut ends_in_folder = true;
    for segment in decoded.split(|&byte| byte == b'/') {
        ends_in_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                let cut = normal.iter().rposition(|&byte| byte == b'/');
                normal.truncate(cut.ok_or(TargetError::Outside)?);
            }
            name => {
                normal.push(b'/');
                normal.extend_from_slice(name);
            }
        }
    }
    if ends_in_folder {
        normal.push(b'/');
    }
    Ok(normal)
}

/// Bytes with their `%` escapes resolved.
///
/// # Errors
/// An escape lacks its digits, or a byte is NUL, which no file name may hold.
pub fn decode(text: &[u8]) -> Result<Vec<u8>, TargetError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let byte = if byte == b'%' {
            let [high, low, after @ ..] = rest else {
                return Err(TargetError::Malformed);
            };
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                return Err(TargetError::Malformed);
            };
            rest = after;
            (high * 16 + low) as u8
        } else {
            byte
        };
        if byte == 0 {
            return Err(TargetError::Malformed);
        }
        decoded.push(byte);
    }
    Ok(decoded)
}

/// The value of a key in a query such as `us=5&x=1`, as it stands.
#[must_use]
pub fn query_value<'a>(query: &'a [u8], key: &str) -> Option<&'a [u8]> {
    query
        .split(|&byte| byte == b'&')
        .find_map(|pair| pair.strip_prefix(key.as_bytes())?.strip_prefix(b"="))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn paths_are_normal_before_they_are_looked_up() {
        let normal = |text: &str| {
            normal_path(text.as_bytes()).map(|path| String::from_utf8_lossy(&path).into_owned())
        };
        for (given, expected) in [
            ("/a/b", "/a/b"),
            ("//a/./b/", "/a/b/"),
            ("/a/../b", "/b"),
            ("/", "/"),
            ("/a/..", "/"),
            ("/%61%2Fb", "/a/b"),
            ("/a%20b", "/a b"),
        ] {
            assert_eq!(normal(given), Ok(expected.to_owned()), "{given}");
        }
        for outside in ["/..", "/a/../../b", "/%2e%2e/etc/passwd", "/..%2f..%2fetc"] {
            assert_eq!(normal(outside), Err(TargetError::Outside), "{outside}");
        }
        for malformed in ["/%", "/%2", "/%zz", "/%00"] {
            assert_eq!(
                normal(malformed),
                Err(TargetError::Malformed),
                "{malformed}"
            );
        }
    }

    #[test]
    fn an_absolute_form_names_its_path() {
        assert_eq!(origin_form(b"HTTP://h:80/a?b"), Some(&b"/a?b"[..]));
        assert_eq!(origin_form(b"http://h"), Some(&b"/"[..]));
        assert_eq!(origin_form(b"h:80"), None);
        assert_eq!(origin_form(b"*"), None);
    }

    proptest! {
        #[test]
        fn a_normal_path_never_climbs(path in prop::collection::vec(
            prop::sample::select(b"/.%2eaF\0".to_vec()), 0..40))
        {
            if let Ok(normal) = normal_path(&path) {
                prop_assert!(normal.starts_with(b"/"));
                prop_assert!(!normal.split(|&b| b == b'/').any(|part| part == b".."));
                prop_assert!(!normal.contains(&0));
            }
        }
    }
}
