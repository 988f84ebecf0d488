//! Request targets and their paths (RFC 9112, section 3.2; RFC 3986, section 5.2.4).

/// The reason why a target has no normalized path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetError {
    /// A `%` without two hexadecimal digits, or a NUL byte, which no file name can contain.
    Malformed,
    /// `..` leads out of the root.
    Outside,
}

/// Whether a method may have this target (RFC 9112, section 3.2): a path or a URI of HTTP, without a
/// fragment. `OPTIONS` may have `*`. `CONNECT` has a host and a port; here it has any target, because
/// no server accepts this method.
pub fn is_target(method: &str, target: &[u8]) -> bool {
    match target {
        _ if method == "CONNECT" => true,
        b"*" => method == "OPTIONS",
        _ if target.contains(&b'#') => false,
        [b'/', ..] => true,
        _ => authority(target).is_some_and(is_authority),
    }
}

/// The authority of a target in absolute form, and nothing for another form.
fn authority(target: &[u8]) -> Option<&[u8]> {
    let rest = after_scheme(target)?;
    let end = rest.iter().position(|byte| b"/?#".contains(byte));
    Some(&rest[..end.unwrap_or(rest.len())])
}

/// Whether an authority has a host and no user (RFC 9110, sections 4.2.1 and 4.2.4).
fn is_authority(authority: &[u8]) -> bool {
    !matches!(authority, [] | [b':', ..]) && !authority.contains(&b'@')
}

/// The part of a URI of HTTP after its scheme.
fn after_scheme(target: &[u8]) -> Option<&[u8]> {
    [&b"http://"[..], b"https://"]
        .into_iter()
        .find_map(|scheme| {
            let (start, rest) = target.split_at_checked(scheme.len())?;
            start.eq_ignore_ascii_case(scheme).then_some(rest)
        })
}

/// Splits a target into its path and its query, and drops the fragment.
pub fn split_query(target: &[u8]) -> (&[u8], &[u8]) {
    match memchr::memchr2(b'?', b'#', target) {
        Some(at) if target[at] == b'?' => (&target[..at], &target[at + 1..]),
        Some(at) => (&target[..at], &[]),
        None => (target, &[]),
    }
}

/// Removes scheme and authority from a target in absolute form: `http://host/a` becomes `/a`.
///
/// `None` if the target is neither in origin form nor in absolute form.
pub fn origin_form(target: &[u8]) -> Option<&[u8]> {
    if target.first() == Some(&b'/') {
        return Some(target);
    }
    let rest = after_scheme(target)?;
    match rest
        .iter()
        .position(|&byte| matches!(byte, b'/' | b'?' | b'#'))
    {
        Some(at) if rest[at] == b'/' => Some(&rest[at..]),
        _ => Some(b"/"),
    }
}

/// Decodes a path and removes empty segments, `.` and `..`. Keeps a slash at the end.
///
/// # Errors
/// The path is malformed or leads out of the root.
pub fn normalize_path(path: &[u8]) -> Result<Vec<u8>, TargetError> {
    let decoded = percent_decode(path).ok_or(TargetError::Malformed)?;
    if decoded.contains(&0) {
        return Err(TargetError::Malformed);
    }
    let mut normalized = Vec::with_capacity(decoded.len());
    let mut ends_in_folder = true;
    for segment in decoded.split(|&byte| byte == b'/') {
        ends_in_folder = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                let cut = normalized.iter().rposition(|&byte| byte == b'/');
                normalized.truncate(cut.ok_or(TargetError::Outside)?);
            }
            name => {
                normalized.push(b'/');
                normalized.extend_from_slice(name);
            }
        }
    }
    if ends_in_folder {
        normalized.push(b'/');
    }
    Ok(normalized)
}

/// Decodes percent-encoding (RFC 3986, section 2.1); `None` if a `%` lacks two hexadecimal digits.
pub fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let [high, low, after @ ..] = after else {
                return None;
            };
            let digit = |byte: &u8| char::from(*byte).to_digit(16);
            decoded.push((digit(high)? * 16 + digit(low)?) as u8);
            rest = after;
        } else {
            decoded.push(byte);
            rest = after;
        }
    }
    Some(decoded)
}

/// The value of a key in a query such as `us=5&x=1`. The value is not decoded.
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
    fn paths_are_decoded_and_normalized() {
        let normalized = |text: &str| {
            normalize_path(text.as_bytes()).map(|path| String::from_utf8_lossy(&path).into_owned())
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
            assert_eq!(normalized(given), Ok(expected.to_owned()), "{given}");
        }
        for outside in ["/..", "/a/../../b", "/%2e%2e/etc/passwd", "/..%2f..%2fetc"] {
            assert_eq!(normalized(outside), Err(TargetError::Outside), "{outside}");
        }
        for malformed in ["/%", "/%2", "/%zz", "/%00"] {
            assert_eq!(
                normalized(malformed),
                Err(TargetError::Malformed),
                "{malformed}"
            );
        }
    }

    #[test]
    fn a_target_has_a_form_that_its_method_may_have() {
        for (method, target) in [
            ("GET", "/a?b"),
            ("GET", "HTTP://h:80/a"),
            ("GET", "http://h?a@b"),
            ("OPTIONS", "*"),
            ("CONNECT", "h:80"),
        ] {
            assert!(is_target(method, target.as_bytes()), "{method} {target}");
        }
        for (method, target) in [
            ("GET", "*"),
            ("GET", "a.txt"),
            ("GET", "h:80"),
            ("GET", "/a#b"),
            ("GET", "http://h/#b"),
            ("GET", "http:///a"),
            ("GET", "http://:80/a"),
            ("GET", "http://user@h/a"),
            ("POST", "ftp://h/a"),
        ] {
            assert!(!is_target(method, target.as_bytes()), "{method} {target}");
        }
    }

    #[test]
    fn an_absolute_form_is_reduced_to_its_path() {
        assert_eq!(origin_form(b"HTTP://h:80/a?b"), Some(&b"/a?b"[..]));
        assert_eq!(origin_form(b"http://h"), Some(&b"/"[..]));
        assert_eq!(origin_form(b"h:80"), None);
        assert_eq!(origin_form(b"*"), None);
    }

    proptest! {
        #[test]
        fn a_normalized_path_never_leaves_the_root(path in prop::collection::vec(
            prop::sample::select(b"/.%2eaF\0".to_vec()), 0..40))
        {
            if let Ok(normalized) = normalize_path(&path) {
                prop_assert!(normalized.starts_with(b"/"));
                prop_assert!(!normalized.split(|&b| b == b'/').any(|part| part == b".."));
                prop_assert!(!normalized.contains(&0));
            }
        }
    }
}
