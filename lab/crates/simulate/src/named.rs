//! Enums whose variants have names for files and tables.

/// An enum whose variants have names in the data files.
macro_rules! named {
    ($(#[$doc:meta])* $visibility:vis enum $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visibility enum $name { $($variant),+ }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}

pub(crate) use named;
