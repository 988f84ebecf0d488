//! The caches of one processor, or of several that are kept coherent.

use perpacket_memory::{Action, Line, ParameterError, Side, Touch};

use crate::model::{Misses, Model, ModelParameters, Outcome};
use crate::moves::SharingWindow;
use crate::rows::RowName;
use crate::sharing::{Sharing, SharingParameters};

/// Caches and buffers, and their misses by row.
#[derive(Clone, Debug)]
pub enum Caches {
    /// Those of one processor, to which no other processor matters.
    One(Box<Model>),
    /// Those of several processors.
    Several(Box<Sharing>),
}

/// Calls a method of either.
macro_rules! either {
    ($caches:ident, $own:ident => $call:expr) => {
        match $caches {
            Self::One($own) => $call,
            Self::Several($own) => $call,
        }
    };
}

impl Caches {
    /// Empty caches of one processor, or of several if `sharing` is there.
    ///
    /// # Errors
    ///
    /// Names the first parameter that is out of its range, or that several processors cannot have.
    pub fn new(
        model: &ModelParameters,
        sharing: Option<&SharingParameters>,
    ) -> Result<Self, ParameterError> {
        Ok(match sharing {
            None => Self::One(Box::new(Model::new(model)?)),
            Some(sharing) => Self::Several(Box::new(Sharing::new(model, sharing)?)),
        })
    }

    /// Whether several processors have caches.
    #[must_use]
    pub const fn are_several(&self) -> bool {
        matches!(self, Self::Several(_))
    }

    /// The parameters of the modelled caches.
    #[must_use]
    pub fn parameters(&self) -> &ModelParameters {
        match self {
            Self::One(model) => model.parameters(),
            Self::Several(sharing) => sharing.model(),
        }
    }

    /// Makes room for `rows` rows. The number of the row of an access must be below `rows`.
    pub fn reserve(&mut self, rows: usize) {
        either!(self, own => own.reserve(rows));
    }

    /// Empties every cache and buffer, and zeroes every count.
    ///
    /// # Errors
    ///
    /// There is no error if [`new`](Self::new) accepted the parameters.
    pub fn reset(&mut self) -> Result<(), ParameterError> {
        either!(self, own => own.reset())
    }

    /// Sets every count to zero. The contents of the caches do not change.
    pub fn start_counting(&mut self) {
        either!(self, own => own.start_counting());
    }

    /// The window ends. No access may come after it.
    pub fn end_counting(&mut self) {
        if let Self::Several(sharing) = self {
            sharing.end_counting();
        }
    }

    /// One access. If there is one processor, its number does not matter.
    #[inline]
    pub fn access(&mut self, processor: usize, touch: Touch, row: usize) -> Outcome {
        match self {
            Self::One(model) => {
                let side = match touch.action {
                    Action::Fetch => Side::Instruction,
                    Action::Load | Action::Store => Side::Data,
                };
                model.access(side, touch.line, row)
            }
            Self::Several(sharing) => sharing.access(processor, touch, row),
        }
    }

    /// Whether a load of one of several processors changes nothing.
    #[inline]
    #[must_use]
    pub fn repeats_load(&self, processor: usize, line: Line) -> bool {
        match self {
            Self::One(_) => false,
            Self::Several(sharing) => sharing.repeats_load(processor, line),
        }
    }

    /// Moves the misses of data of a row to another. The caller does so after an access of this row
    /// and before the next access.
    pub fn move_data_misses(&mut self, from: usize, to: usize) {
        either!(self, own => own.move_data_misses(from, to));
    }

    /// A device wrote `line`. The caller must clear its filter of repeated accesses.
    pub fn device_write(&mut self, line: Line) {
        either!(self, own => own.device_write(line));
    }

    /// The processor dropped its translations.
    pub fn flush_translations(&mut self, processor: usize) {
        match self {
            Self::One(model) => model.flush_translations(),
            Self::Several(sharing) => sharing.flush_translations(processor),
        }
    }

    /// The misses of a row in each configuration.
    #[must_use]
    pub fn misses(&self, row: usize) -> &[Misses] {
        either!(self, own => own.misses(row))
    }

    /// The misses of a row in the buffers, by side.
    #[must_use]
    pub fn translation_misses(&self, row: usize) -> [u64; 2] {
        either!(self, own => own.translation_misses(row))
    }

    /// The lines that moved between processors, in a window whose rows have these names.
    #[must_use]
    pub fn sharing(&self, rows: &[RowName]) -> Option<SharingWindow> {
        match self {
            Self::One(_) => None,
            Self::Several(sharing) => Some(sharing.window(rows)),
        }
    }
}
