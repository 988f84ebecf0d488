//! Layer, kind and direction of code, as one number.

use perpacket_cost::{Direction, Kind, Layer};

/// Layer, kind and direction of the code that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Context(u16);

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

    /// The context of that number, if there is one.
    #[must_use]
    pub fn from_index(index: usize) -> Option<Self> {
        (index < Self::COUNT).then_some(Self(index as u16))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_one_context() {
        for index in 0..Context::COUNT {
            let context = Context::from_index(index).unwrap();
            let (layer, kind, direction) = (context.layer(), context.kind(), context.direction());
            assert_eq!(Context::new(layer, kind, direction), context);
        }
        assert_eq!(Context::from_index(Context::COUNT), None);
    }
}
