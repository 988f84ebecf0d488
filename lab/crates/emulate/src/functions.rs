//! The kernel's functions, and how entering one changes the context.

use std::borrow::Cow;

use perpacket_cost::{Direction, FunctionClass, KernelSymbols, Kind, Layer, Owner, Rules};

use rustc_hash::FxHashMap;

use crate::context::Context;
use crate::meetings::Event;

/// Functions that the processor enters by itself, not by a call or a jump of other code.
const ENTRIES: [&str; 2] = [EXCEPTION, "asm_sysvec_"];
const EXCEPTION: &str = "asm_exc_";
/// It interrupts between two instructions.
const NO_EXCEPTION: &str = "asm_exc_nmi";

/// Tables of such code. Each interrupt has a stub, which jumps to `asm_common_interrupt`. A stub's
/// first instruction is aligned, and its second is not.
const ENTRY_TABLES: [&str; 2] = ["irq_entries_start", "spurious_entries_start"];
const STUB_ALIGNMENT: u64 = 8;

/// A function by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function(pub u32);

/// What the rules list about the code at an address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    is_user: bool,
    class: FunctionClass,
    /// Whether the processor enters this code by itself. The context that it interrupts is then
    /// restored at its return.
    pub is_hardware_entry: bool,
    /// Whether it enters this code because an instruction could not be completed.
    pub is_exception: bool,
}

impl Work {
    /// User code.
    pub const USER: Self = Self {
        is_user: true,
        class: NO_CLASS,
        is_hardware_entry: false,
        is_exception: false,
    };

    /// A kernel function of that class.
    #[must_use]
    pub const fn kernel(class: FunctionClass) -> Self {
        Self {
            is_user: false,
            class,
            is_hardware_entry: false,
            is_exception: false,
        }
    }

    /// Whether it is user code.
    #[must_use]
    pub const fn is_user(&self) -> bool {
        self.is_user
    }

    /// Whether it is code of a network driver.
    #[must_use]
    pub fn is_driver(&self) -> bool {
        self.class
            .owner
            .is_some_and(|owner| owner.layer == Layer::Driver)
    }

    /// Whether it calls network drivers.
    #[must_use]
    pub const fn calls_drivers(&self) -> bool {
        self.class.driver_caller
    }

    /// The context of this code. `current` is the context of its caller, or of the code that jumps
    /// to it. `calls_drivers` is true if the caller is a function that calls network drivers.
    ///
    /// This is [`charge_chain`](perpacket_cost::charge_chain) for a chain that grows by one call.
    #[must_use]
    pub fn enter(&self, current: Context, calls_drivers: bool) -> Context {
        if self.is_user {
            return Context::USER;
        }
        let class = &self.class;
        let (owner, direction) = if class.interrupt_entry {
            (Some(Owner::INTERRUPT), Direction::Neither)
        } else {
            let inherited = if self.is_hardware_entry {
                Direction::Neither
            } else {
                current.direction()
            };
            let driver = calls_drivers.then_some(Owner::DRIVER);
            (class.owner.or(driver), class.direction.unwrap_or(inherited))
        };
        match owner {
            Some(Owner { layer, .. }) => {
                let kind = class.kind.unwrap_or(Kind::default_in(layer));
                Context::new(layer, kind, direction)
            }
            None if class.dead_end => Context::UNCLAIMED,
            None if current.layer() == Layer::User => {
                Context::new(Layer::Other, class.kind.unwrap_or(Kind::Other), direction)
            }
            None => Context::new(
                current.layer(),
                class.kind.unwrap_or(current.kind()),
                direction,
            ),
        }
    }
}

const NO_CLASS: FunctionClass = FunctionClass {
    owner: None,
    kind: None,
    direction: None,
    skid: false,
    interrupt_entry: false,
    driver_caller: false,
    dead_end: false,
};

/// The functions of a kernel with their rules.
#[derive(Debug)]
pub struct Functions {
    symbols: KernelSymbols,
    rules: Rules,
    classes: Vec<Option<FunctionClass>>,
    /// Whether each block of user code is a function of its own, named by its address.
    divides_user: bool,
    user: Vec<u64>,
    by_address: FxHashMap<u64, Function>,
}

impl Functions {
    /// User code, as a function.
    pub const USER: Function = Function(u32::MAX);
    /// Kernel code in no function.
    pub const UNKNOWN: Function = Function(u32::MAX - 1);

    /// The first number of a block of user code.
    const FIRST_USER: u32 = 1 << 30;

    /// The functions of these symbols. There may be no symbols.
    #[must_use]
    pub fn new(symbols: KernelSymbols, rules: Rules) -> Self {
        let classes = vec![None; symbols.len()];
        Self {
            symbols,
            rules,
            classes,
            divides_user: false,
            user: Vec::new(),
            by_address: FxHashMap::default(),
        }
    }

    /// Tells blocks of user code apart. The name of each has its address.
    #[must_use]
    pub fn dividing_user(self, divides_user: bool) -> Self {
        Self {
            divides_user,
            ..self
        }
    }

    /// Replaces the symbols. The functions of the earlier ones are no longer known.
    pub fn replace_symbols(&mut self, symbols: KernelSymbols) {
        self.classes = vec![None; symbols.len()];
        self.symbols = symbols;
    }

    /// The function at an address of code, and its work. The lower half of all addresses is user code.
    pub fn at(&mut self, address: u64) -> (Function, Work) {
        if address >> 63 == 0 {
            return (self.user(address), Work::USER);
        }
        let Some(id) = self.symbols.find(address) else {
            return (Self::UNKNOWN, Work::default());
        };
        let name = self.symbols.name(id);
        let module = self.symbols.module(id);
        let class =
            *self.classes[id.index()].get_or_insert_with(|| self.rules.function(name, module));
        let offset = address - self.symbols.address(id);
        let begins = |stems: [&str; 2]| stems.iter().any(|stem| name.starts_with(stem));
        let is_stub = offset.is_multiple_of(STUB_ALIGNMENT) && begins(ENTRY_TABLES);
        let work = Work {
            is_user: false,
            class,
            is_hardware_entry: offset == 0 && begins(ENTRIES) || is_stub,
            is_exception: offset == 0 && name.starts_with(EXCEPTION) && name != NO_EXCEPTION,
        };
        (Function(id.index() as u32), work)
    }

    /// The event that the instruction at an address is.
    #[must_use]
    pub fn event(&self, address: u64) -> Option<Event> {
        let id = self.symbols.find(address).filter(|_| address >> 63 == 1)?;
        let begins = self.symbols.address(id) == address;
        begins.then(|| Event::of(self.symbols.name(id))).flatten()
    }

    fn user(&mut self, address: u64) -> Function {
        if !self.divides_user {
            return Self::USER;
        }
        *self.by_address.entry(address).or_insert_with(|| {
            self.user.push(address);
            Function(Self::FIRST_USER + self.user.len() as u32 - 1)
        })
    }

    /// The name of a function; of a block of user code, its address.
    #[must_use]
    pub fn name(&self, function: Function) -> Cow<'_, str> {
        let name = match function {
            Self::USER => Some("user"),
            Self::UNKNOWN => None,
            Function(index @ Self::FIRST_USER..) => {
                let address = self.user[(index - Self::FIRST_USER) as usize];
                return Cow::Owned(format!("user {address:#x}"));
            }
            Function(index) => self.symbols.name_at(index as usize),
        };
        Cow::Borrowed(name.unwrap_or("unknown"))
    }
}
