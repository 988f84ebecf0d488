//! SPECweb99's dynamic operations, after the benchmark's run rules and user guide (SPEC, 1999).
//!
//! | request | response |
//! |---|---|
//! | `GET /specweb99/get?file=/file_set/dir00000/class1_3` | a page around the file |
//! | `GET /specweb99/ad?file=/file_set/dir00000/class1_3` with `Cookie: user_id=10001&last_ad=17` | a page around the file with the next advertisement, and `Set-Cookie: user_id=10001&last_ad=18` |
//! | `POST /specweb99/post` with the body `dir=0&class=1&file=3&client=7` | appends a record to the POST log; a page around the file, and `Set-Cookie: my_cookie=N` with the record's number |
//! | `GET /specweb99/cgi?file=/file_set/dir00000/class1_3` | the page of `get`, made by a program started for it |
//!
//! A page is HTML: server and client, the query, and the file between `<pre>` and `</pre>`. The
//! file of an advertisement may contain the text [`AD_MARK`]. The server replaces each [`AD_MARK`]
//! with a link of the same length to the advertisement, as the benchmark requires for its classes 1
//! and 2.
//!
//! There are 360 advertisements: ten directories of 36 files. The next advertisement depends on the
//! user. It is the first one from `last_ad + 1` on, cyclically, whose demographics have a bit in
//! common with the user's. The benchmark reads the demographics from files. Here they are computed
//! from the numbers, so that a client can check them: see [`demographics`].

use std::io::Write;
use std::net::IpAddr;

use super::number;
use perpacket_http::coding::Coding;
use perpacket_http::target::{normalize_path, query_value};

/// The number of advertisements.
pub const ADS: u64 = 360;

/// The placeholder of an advertisement's link, which has the same length.
pub const AD_MARK: &[u8] = b"<!WEB99CAD><IMG SRC=\"/file_set/dirNNNNN/classX_Y\"><!/WEB99CAD>";

/// A dynamic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Dynamic GET.
    Get(&'a [u8]),
    /// Dynamic GET with a rotating advertisement.
    Ad(&'a [u8]),
    /// Dynamic POST. Its arguments are in the body.
    Post,
    /// GET answered by a CGI program.
    Cgi(&'a [u8]),
}

impl<'a> Operation<'a> {
    /// The operation of a name, with its file checked.
    pub fn parse(name: &[u8], query: &'a [u8]) -> Option<Result<Self, &'static str>> {
        if name == b"post" {
            return Some(Ok(Self::Post));
        }
        let make = match name {
            b"get" => Self::Get,
            b"ad" => Self::Ad,
            b"cgi" => Self::Cgi,
            _ => return None,
        };
        let file = query_value(query, "file").filter(|file| FileName::parse(file).is_some());
        Some(
            file.map(make)
                .ok_or("expected ?file=/file_set/dirNNNNN/classC_F"),
        )
    }
}

/// A file of the file set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileName {
    pub directory: u64,
    /// The class, 0 to 3.
    pub class: u64,
    /// The number in the class, 0 to 8.
    pub file: u64,
}

impl FileName {
    /// Parses a path such as `/file_set/dir00000/class1_3`.
    pub fn parse(path: &[u8]) -> Option<Self> {
        let rest = path.strip_prefix(b"/file_set/dir")?;
        let (directory, rest) = rest.split_at_checked(5)?;
        let [class, b'_', file] = *rest.strip_prefix(b"/class")? else {
            return None;
        };
        Self::new(number(directory)?, number(&[class])?, number(&[file])?)
    }

    /// The file with these numbers, if they are in the range of the file set.
    pub fn new(directory: u64, class: u64, file: u64) -> Option<Self> {
        (directory <= 99_999 && class <= 3 && file <= 8).then_some(Self {
            directory,
            class,
            file,
        })
    }

    pub fn path(self) -> String {
        format!(
            "/file_set/dir{:05}/class{}_{}",
            self.directory, self.class, self.file
        )
    }
}

/// The form in the body of a POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The file that the response contains.
    pub file: FileName,
    /// The client's number.
    pub client: u64,
}

impl Form {
    /// Reads `dir=0&class=1&file=3&client=7`.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let value = |key| number(query_value(body.trim_ascii(), key)?);
        Some(Self {
            file: FileName::new(value("dir")?, value("class")?, value("file")?)?,
            client: value("client")?,
        })
    }
}

/// The user and the last advertisement of a `Cookie` field. A missing user is 0, and a missing
/// advertisement is the last one of all.
pub fn user_of(cookie: Option<&[u8]>) -> (u64, u64) {
    let field = cookie.unwrap_or_default();
    let value = |key: &[u8]| {
        let start = memchr::memmem::find(field, key)? + key.len();
        let digits = field[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        number(&field[start..start + digits.count()])
    };
    (
        value(b"user_id=").unwrap_or_default(),
        value(b"last_ad=").unwrap_or(ADS - 1) % ADS,
    )
}

/// The demographics of a user, or of an advertisement's audience: 16 properties, each a bit. At
/// least one bit is set, and about a quarter of them on average. The bits are those of the number
/// times 2^64 divided by the golden ratio (Fibonacci hashing), so that neighbouring numbers differ.
pub fn demographics(number: u64) -> u16 {
    let mixed = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (high, low) = ((mixed >> 48) as u16, (mixed >> 32) as u16);
    (high & low) | 1 << (mixed >> 60)
}

/// The advertisement that a user sees after `last`. It is `last + 1` if no advertisement matches.
pub fn next_ad(user: u64, last: u64) -> u64 {
    let wanted = demographics(user);
    (1..=ADS)
        .map(|step| (last + step) % ADS)
        .find(|&ad| demographics(ADS + ad) & wanted != 0)
        .unwrap_or((last + 1) % ADS)
}

/// The link of an advertisement, as long as [`AD_MARK`].
pub fn ad_link(ad: u64) -> String {
    let (directory, class, file) = (ad / 36, ad % 36 / 9, ad % 9);
    format!("<!WEB99CAD><IMG SRC=\"/file_set/dir{directory:05}/class{class}_{file}\"><!/WEB99CAD>")
}

/// The part of a page before the file.
pub fn page_top(script: &str, query: &[u8], peer: IpAddr) -> Vec<u8> {
    let mut page = Vec::with_capacity(320);
    // Writing to memory does not fail.
    let _ = write!(
        page,
        "<html>\n<head><title>SPECweb99 Dynamic GET &amp; POST Test</title></head>\n<body>\n\
         <p>SERVER_SOFTWARE = perpacket\n<p>REMOTE_ADDR = {peer}\n<p>SCRIPT_NAME = {script}\n\
         <p>QUERY_STRING = "
    );
    for &byte in query {
        match byte {
            b'<' => page.extend_from_slice(b"&lt;"),
            b'>' => page.extend_from_slice(b"&gt;"),
            b'&' => page.extend_from_slice(b"&amp;"),
            _ => page.push(byte),
        }
    }
    page.extend_from_slice(b"\n<pre>\n");
    page
}

/// The part of a page after the file.
pub const PAGE_END: &[u8] = b"\n</pre>\n</body>\n</html>\n";

/// The page of the CGI operation, for the CGI program. `query` and `peer` are `QUERY_STRING` and
/// `REMOTE_ADDR`, `root` is the folder with the file set.
///
/// # Errors
/// The query names no file of the file set, or the file cannot be read.
pub fn cgi_page(root: &std::path::Path, query: &[u8], peer: IpAddr) -> std::io::Result<Vec<u8>> {
    let refused = || std::io::Error::from(std::io::ErrorKind::InvalidInput);
    let Some(Ok(Operation::Cgi(file))) = Operation::parse(b"cgi", query) else {
        return Err(refused());
    };
    let path = normalize_path(file).map_err(|_| refused())?;
    let name = crate::files::entry::file_path(&path, Coding::Identity);
    let root = perpacket_linux::root_folder::RootFolder::open(root)?;
    let mut page = page_top("/specweb99/cgi", query, peer);
    std::io::Read::read_to_end(&mut std::fs::File::from(root.open_file(&name)?), &mut page)?;
    page.extend_from_slice(PAGE_END);
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_file_set_has_one_name() {
        let name = FileName::parse(b"/file_set/dir00012/class3_8").unwrap();
        assert_eq!(name, FileName::new(12, 3, 8).unwrap());
        assert_eq!(name.path(), "/file_set/dir00012/class3_8");
        for wrong in [
            "/file_set/dir0/class1_3",
            "/file_set/dir00000/class4_0",
            "/file_set/dir00000/class1_9",
            "/file_set/dir00000/class1_33",
            "/../etc/passwd",
        ] {
            assert_eq!(FileName::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn a_user_sees_all_matching_advertisements_in_turn() {
        for user in [0, 1, 10_001, u64::MAX >> 4] {
            let fitting = (0..ADS)
                .filter(|ad| demographics(ADS + ad) & demographics(user) != 0)
                .count();
            let mut seen = std::collections::BTreeSet::new();
            let mut ad = ADS - 1;
            for _ in 0..fitting {
                ad = next_ad(user, ad);
                seen.insert(ad);
            }
            assert_eq!(seen.len(), fitting.max(1), "each once before any repeats");
        }
    }

    #[test]
    fn every_link_is_as_long_as_its_placeholder() {
        assert!((0..ADS).all(|ad| ad_link(ad).len() == AD_MARK.len()));
    }

    #[test]
    fn a_cookie_has_the_user_and_the_last_advertisement() {
        assert_eq!(
            user_of(Some(b"my_cookie=user_id=10001&last_ad=17")),
            (10_001, 17)
        );
        assert_eq!(user_of(Some(b"user_id=x&last_ad=999")), (0, 999 % ADS));
        assert_eq!(user_of(None), (0, ADS - 1));
    }
}
