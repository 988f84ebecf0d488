//! The content type of a file by its extension.

/// The type of a file whose extension is unknown (RFC 9110, section 8.3).
pub const OCTET_STREAM: &str = "application/octet-stream";

/// Extensions in lower case with their types from the IANA registry, sorted for the binary search.
const TYPES: [(&str, &str); 36] = [
    ("avif", "image/avif"),
    ("bin", OCTET_STREAM),
    ("bmp", "image/bmp"),
    ("css", "text/css; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("gif", "image/gif"),
    ("gz", "application/gzip"),
    ("htm", "text/html; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("ico", "image/vnd.microsoft.icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("m4a", "audio/mp4"),
    ("md", "text/markdown; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"),
    ("mp3", "audio/mpeg"),
    ("mp4", "video/mp4"),
    ("mpeg", "video/mpeg"),
    ("ogg", "audio/ogg"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("tar", "application/x-tar"),
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),
    ("txt", "text/plain; charset=utf-8"),
    ("wasm", "application/wasm"),
    ("wav", "audio/wav"),
    ("webm", "video/webm"),
    ("webp", "image/webp"),
    ("woff2", "font/woff2"),
    ("xml", "application/xml"),
    ("zip", "application/zip"),
    ("zst", "application/zstd"),
];

/// The content type of a file, by the last extension of its name.
pub fn content_type(path: &[u8]) -> &'static str {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let Some(dot) = name.iter().rposition(|&byte| byte == b'.') else {
        return OCTET_STREAM;
    };
    let extension = name[dot + 1..].to_ascii_lowercase();
    TYPES
        .binary_search_by(|(known, _)| known.as_bytes().cmp(&extension))
        .map_or(OCTET_STREAM, |index| TYPES[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(TYPES.is_sorted());
    }

    #[test]
    fn a_type_comes_from_the_last_extension_in_any_case() {
        assert_eq!(content_type(b"/a.b/index.HTML"), "text/html; charset=utf-8");
        assert_eq!(content_type(b"/a.html/none"), OCTET_STREAM);
        assert_eq!(content_type(b"/file_set/dir00000/class1_3"), OCTET_STREAM);
    }
}
