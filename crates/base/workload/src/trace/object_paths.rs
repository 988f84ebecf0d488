//! Object mappings: the paths of the object numbers of the World Cup 1998 logs.

use std::io::{Read, Write};

use memchr::memchr;
use rustc_hash::FxHashMap;

use crate::trace::error::TraceError;
use crate::trace::input::Input;

/// Paths by object number, read from a file such as the World Cup's `object_mappings`, plain or
/// compressed. Each line has a number in ten columns, a blank and a path.
#[derive(Clone, Debug, Default)]
pub struct ObjectPaths {
    paths: FxHashMap<u32, Box<[u8]>>,
}

impl ObjectPaths {
    /// Reads a mappings file.
    ///
    /// # Errors
    /// A line is not a number and a path, or the file is damaged.
    pub fn read<R: Read>(source: R) -> Result<Self, TraceError> {
        let mut input = Input::new(source)?;
        let mut text = Vec::new();
        while input.extend()? {
            text.extend_from_slice(input.bytes());
            input.consume(input.bytes().len());
        }
        let mut paths = FxHashMap::default();
        let lines = text
            .strip_suffix(b"\n")
            .unwrap_or(&text)
            .split(|byte| *byte == b'\n');
        for (index, line) in lines.enumerate() {
            let (object, path) = mapping(line).ok_or(TraceError::Mapping {
                line: index as u64 + 1,
            })?;
            paths.insert(object, path.into());
        }
        Ok(Self { paths })
    }

    /// The path of an object: the mapped path, or `/object/N` without a mapping.
    pub fn path(&self, object: u32) -> Vec<u8> {
        self.paths
            .get(&object)
            .map_or_else(|| unmapped_path(object).into_bytes(), |path| path.to_vec())
    }

    /// Number of mapped objects.
    pub fn len(&self) -> usize {
        self.paths.len()
    }

    /// Whether no object is mapped.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }
}

/// The path of an object without a mapping.
pub(crate) fn unmapped_path(object: u32) -> String {
    format!("/object/{object}")
}

/// Writes one line of a mappings file.
pub(crate) fn write_mapping(
    destination: &mut dyn Write,
    object: u32,
    path: &[u8],
) -> Result<(), TraceError> {
    write!(destination, "{object:10} ")
        .and_then(|()| destination.write_all(path))
        .and_then(|()| destination.write_all(b"\n"))
        .map_err(TraceError::Write)
}

/// Number and path of a line.
fn mapping(line: &[u8]) -> Option<(u32, &[u8])> {
    let line = line.trim_ascii_start();
    let blank = memchr(b' ', line)?;
    let object = std::str::from_utf8(&line[..blank]).ok()?.parse().ok()?;
    Some((object, &line[blank + 1..]))
}
