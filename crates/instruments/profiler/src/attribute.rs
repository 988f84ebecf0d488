//! Resolves call chains of the kernel and charges them.

use std::collections::BTreeSet;

use perpacket_cost::{Charge, FunctionClass, KernelSymbols, Owner, Rules, SymbolId, charge_chain};

/// The functions of the kernel that run softirqs; the first is that of Linux 6.10 and newer.
const SOFTIRQ: [&str; 2] = ["handle_softirqs", "__do_softirq"];

/// A call chain after it was resolved and charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedStack {
    /// The layer and kind of work to which the stack is charged.
    pub charge: Charge,
    /// Whether the stack ran in an interrupt, a softirq or a kernel thread. Such work is not
    /// necessarily for the process that it interrupted.
    pub shared: bool,
    /// Whether the stack ran in a softirq.
    pub softirq: bool,
    /// The functions of the stack, leaf first; `None` for an address in no function.
    pub frames: Vec<Option<SymbolId>>,
}

/// Charges call chains, and caches the class of each function.
#[derive(Debug)]
pub struct Attributor {
    symbols: KernelSymbols,
    rules: Rules,
    drivers: BTreeSet<String>,
    classes: Vec<Option<FunctionClass>>,
}

impl Attributor {
    /// An attributor that uses these symbols and rules. `drivers` are the modules of network
    /// interfaces.
    #[must_use]
    pub fn new(symbols: KernelSymbols, rules: Rules, drivers: BTreeSet<String>) -> Self {
        let classes = vec![None; symbols.len()];
        Self {
            symbols,
            rules,
            drivers,
            classes,
        }
    }

    /// The kernel's symbols.
    #[must_use]
    pub const fn symbols(&self) -> &KernelSymbols {
        &self.symbols
    }

    /// The rules.
    #[must_use]
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Resolves and charges a call chain of the kernel, leaf first.
    pub fn charge(&mut self, chain: &[u64]) -> ResolvedStack {
        let frames: Vec<_> = chain
            .iter()
            .enumerate()
            .map(|(depth, &address)| {
                // The address in a caller's frame is the one after its call. If the call never
                // returns, this address may be the start of the next function.
                self.symbols
                    .find(address.saturating_sub(u64::from(depth > 0)))
            })
            .collect();
        let classes: Vec<_> = frames
            .iter()
            .map(|frame| frame.map(|id| self.class(id)))
            .collect();
        ResolvedStack {
            charge: charge_chain(&classes),
            shared: classes
                .iter()
                .flatten()
                .any(|class| class.interrupt_entry || class.dead_end),
            softirq: frames
                .iter()
                .flatten()
                .any(|&id| SOFTIRQ.contains(&self.symbols.name(id))),
            frames,
        }
    }

    fn class(&mut self, id: SymbolId) -> FunctionClass {
        if let Some(class) = self.classes[id.index()] {
            return class;
        }
        let module = self.symbols.module(id);
        let mut class = self.rules.function(self.symbols.name(id), module);
        if class.owner.is_none() && module.is_some_and(|name| self.drivers.contains(name)) {
            class.owner = Some(Owner::DRIVER);
        }
        self.classes[id.index()] = Some(class);
        class
    }
}
