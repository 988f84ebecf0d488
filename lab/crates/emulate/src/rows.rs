//! Rows of counts: one for each context, or for each function or structure in each context.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::functions::{Function, Functions};
use crate::structures::{Place, Structures};

/// The division of costs besides the division by context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// No further division.
    #[default]
    Layer,
    /// By the function that runs.
    Function,
    /// Misses of data by the structure that is accessed.
    Structure,
}

/// The code or data that a row counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
pub struct RowName {
    /// Its layer, kind and direction.
    pub context: Context,
    /// The function, if functions are counted.
    pub function: Option<String>,
    /// The structure and the number of its line, if the row counts the misses of a structure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<(String, u32)>,
}

/// The subject that a row counts besides its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Nothing,
    Function(Function),
    Place(Place),
}

/// Rows by context and subject.
#[derive(Debug, Default)]
pub struct Rows {
    by: By,
    /// Empty if each context has only one row.
    by_subject: FxHashMap<(Subject, Context), u32>,
    subjects: Vec<(Subject, Context)>,
}

impl Rows {
    /// One row for each context if `by` needs no subjects. Otherwise no rows yet.
    #[must_use]
    pub fn new(by: By) -> Self {
        Self {
            by,
            ..Self::default()
        }
    }

    /// The row of code in a context.
    pub fn of(&mut self, function: Function, context: Context) -> usize {
        match self.by {
            By::Layer => context.index(),
            By::Function => self.of_subject(Subject::Function(function), context),
            By::Structure => self.of_subject(Subject::Nothing, context),
        }
    }

    /// The row of an access to a structure by the code of a row.
    pub fn of_place(&mut self, place: Place, code: usize) -> usize {
        let (_, context) = self.subjects[code];
        self.of_subject(Subject::Place(place), context)
    }

    fn of_subject(&mut self, subject: Subject, context: Context) -> usize {
        let subjects = &mut self.subjects;
        let row = self
            .by_subject
            .entry((subject, context))
            .or_insert_with(|| {
                subjects.push((subject, context));
                subjects.len() as u32 - 1
            });
        *row as usize
    }

    /// The context of a row.
    #[must_use]
    pub fn context(&self, row: usize) -> Context {
        match self.by {
            By::Layer => Context::at(row),
            By::Function | By::Structure => self.subjects[row].1,
        }
    }

    /// Number of rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.by {
            By::Layer => Context::COUNT,
            By::Function | By::Structure => self.subjects.len(),
        }
    }

    /// Whether no row exists yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of each row.
    #[must_use]
    pub fn names(&self, functions: &Functions, structures: Option<&Structures>) -> Vec<RowName> {
        let name = |context, function, structure| RowName {
            context,
            function,
            structure,
        };
        if self.by == By::Layer {
            return Context::all()
                .map(|context| name(context, None, None))
                .collect();
        }
        let row = |(subject, context): &(Subject, Context)| match subject {
            Subject::Nothing => name(*context, None, None),
            Subject::Function(own) => name(*context, Some(functions.name(*own).into_owned()), None),
            Subject::Place(place) => {
                let own = structures.map_or("", |all| all.name(place.structure));
                name(*context, None, Some((own.to_owned(), place.line)))
            }
        };
        self.subjects.iter().map(row).collect()
    }
}
