//! Enums whose variants have names in files, tables and JSON.

/// Defines an enum whose variants have names, with its constant `ALL` and its functions `name` and
/// `from_name`.
#[macro_export]
macro_rules! named {
    (
        $(#[$meta:meta])* $visibility:vis enum $name:ident {
            $($(#[$variant_meta:meta])* $variant:ident = $text:literal),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $visibility enum $name { $($(#[$variant_meta])* $variant),+ }

        #[allow(dead_code, reason = "not every enum is read by name")]
        impl $name {
            /// Every variant.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The name in files, tables and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The variant with this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|variant| variant.name() == name)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.write_str(self.name())
            }
        }
    };
}
