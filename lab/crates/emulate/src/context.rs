//! Layer, kind and direction of code, as one number.

use perpacket_cost::{Direction, Kind, Layer};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// Layer, kind and direction of the code that runs. A recording has their names: `tcp/copy/receive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Context(u16);

/// The kinds of the recordings that have numbers of contexts, not names.
const NUMBERED_KINDS: [Kind; 7] = [
    Kind::Protocol,
    Kind::Copy,
    Kind::Checksum,
    Kind::Allocation,
    Kind::Lock,
    Kind::Wakeup,
    Kind::Other,
];

impl Context {
    /// Number of contexts.
    pub const COUNT: usize = Layer::ALL.len() * Kind::ALL.len() * Direction::ALL.len();

    /// User code.
    pub const USER: Self = Self::new(Layer::User, Kind::Other, Direction::Neither);

    /// Kernel code that no rule claims.
    pub const UNCLAIMED: Self = Self::new(Layer::Other, Kind::Other, Direction::Neither);

    /// The context with this layer, kind and direction.
    #[must_use]
    pub const fn new(layer: Layer, kind: Kind, direction: Direction) -> Self {
        let pair = layer as usize * Kind::ALL.len() + kind as usize;
        Self((pair * Direction::ALL.len() + direction as usize) as u16)
    }

    /// A number below [`COUNT`](Self::COUNT).
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The context with a number below [`COUNT`](Self::COUNT).
    #[must_use]
    pub(crate) const fn at(index: usize) -> Self {
        Self(index as u16)
    }

    /// Every context, in the order of their numbers.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::COUNT).map(Self::at)
    }

    /// The context with the names `layer/kind/direction`.
    fn from_names(names: &str) -> Option<Self> {
        let [layer, kind, direction] = names.split('/').collect::<Vec<_>>().try_into().ok()?;
        Some(Self::new(
            Layer::from_name(layer)?,
            Kind::from_name(kind)?,
            Direction::from_name(direction)?,
        ))
    }

    /// The context that a number meant when there were seven kinds.
    fn from_number(number: usize) -> Option<Self> {
        let (pair, direction) = (number / Direction::ALL.len(), number % Direction::ALL.len());
        let layer = Layer::ALL.get(pair / NUMBERED_KINDS.len())?;
        let kind = NUMBERED_KINDS[pair % NUMBERED_KINDS.len()];
        Some(Self::new(*layer, kind, Direction::ALL[direction]))
    }

    /// The layer.
    #[must_use]
    pub fn layer(self) -> Layer {
        Layer::ALL[self.index() / Direction::ALL.len() / Kind::ALL.len()]
    }

    /// The kind of work.
    #[must_use]
    pub fn kind(self) -> Kind {
        Kind::ALL[self.index() / Direction::ALL.len() % Kind::ALL.len()]
    }

    /// The direction of the packet.
    #[must_use]
    pub fn direction(self) -> Direction {
        Direction::ALL[self.index() % Direction::ALL.len()]
    }
}

impl Serialize for Context {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (layer, kind, direction) = (self.layer(), self.kind(), self.direction());
        serializer.collect_str(&format_args!("{layer}/{kind}/{direction}"))
    }
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Names(String),
            Number(usize),
        }
        let context = match Written::deserialize(deserializer)? {
            Written::Names(names) => Self::from_names(&names),
            Written::Number(number) => Self::from_number(number),
        };
        context.ok_or_else(|| D::Error::custom("expected a context, such as `tcp/copy/receive`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_read_by_its_names() {
        for (index, context) in Context::all().enumerate() {
            assert_eq!(context.index(), index);
            let (layer, kind, direction) = (context.layer(), context.kind(), context.direction());
            assert_eq!(Context::new(layer, kind, direction), context);
            let written = serde_json::to_string(&context).unwrap();
            assert_eq!(serde_json::from_str::<Context>(&written).unwrap(), context);
        }
        for wrong in ["\"tcp/copy\"", "\"tcp/copy/up\"", "273", "-1", "null"] {
            assert!(serde_json::from_str::<Context>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_of_an_earlier_recording_means_what_it_meant() {
        let read = |number: &str| serde_json::from_str::<Context>(number).unwrap();
        assert_eq!(
            read("0"),
            Context::new(Layer::ALL[0], Kind::Protocol, Direction::ALL[0])
        );
        let last = Context::new(Layer::ALL[12], Kind::Other, Direction::ALL[2]);
        assert_eq!(read("272"), last);
        let second = Context::new(Layer::ALL[1], Kind::Protocol, Direction::ALL[1]);
        assert_eq!(read("22"), second);
    }
}
