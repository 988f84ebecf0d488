//! Rows of counts: one for each context, or for each function in each context.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::functions::{Function, Functions};

/// The code that a row counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct RowName {
    /// The number of its context.
    pub context: usize,
    /// The function, if functions are counted.
    pub function: Option<String>,
}

/// Rows by context, or by function and context.
#[derive(Debug, Default)]
pub struct Rows {
    by_function: Option<FxHashMap<(Function, Context), u32>>,
    functions: Vec<(Function, Context)>,
}

impl Rows {
    /// A row for each context, or for each function in each context that it ran in.
    #[must_use]
    pub fn new(by_function: bool) -> Self {
        Self {
            by_function: by_function.then(FxHashMap::default),
            functions: Vec::new(),
        }
    }

    /// The row of a function in a context.
    pub fn of(&mut self, function: Function, context: Context) -> usize {
        let Some(rows) = &mut self.by_function else {
            return context.index();
        };
        let functions = &mut self.functions;
        let row = rows.entry((function, context)).or_insert_with(|| {
            functions.push((function, context));
            functions.len() as u32 - 1
        });
        *row as usize
    }

    /// Number of rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.by_function.is_some() {
            self.functions.len()
        } else {
            Context::COUNT
        }
    }

    /// Whether no row exists yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The code that each row counts.
    #[must_use]
    pub fn names(&self, functions: &Functions) -> Vec<RowName> {
        if self.by_function.is_none() {
            let row = |context| RowName {
                context,
                function: None,
            };
            return (0..Context::COUNT).map(row).collect();
        }
        let row = |(function, context): &(Function, Context)| RowName {
            context: context.index(),
            function: Some(functions.name(*function).to_owned()),
        };
        self.functions.iter().map(row).collect()
    }
}
