//! The paths of a workload's objects, in one buffer.

/// Paths by object number.
#[derive(Debug)]
pub(crate) struct Paths {
    text: Vec<u8>,
    ends: Vec<u32>,
}

impl Paths {
    /// Joins a prefix to each path. The prefix has no slash at its end.
    pub(crate) fn new<P: AsRef<[u8]>>(prefix: &str, paths: impl IntoIterator<Item = P>) -> Self {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for path in paths {
            text.extend_from_slice(prefix.as_bytes());
            text.extend_from_slice(path.as_ref());
            ends.push(text.len() as u32);
        }
        Self { text, ends }
    }

    #[inline]
    pub(crate) fn path(&self, object: u32) -> &[u8] {
        let object = object as usize;
        let from = if object == 0 {
            0
        } else {
            self.ends[object - 1]
        };
        &self.text[from as usize..self.ends[object] as usize]
    }

    /// Number of objects.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}
