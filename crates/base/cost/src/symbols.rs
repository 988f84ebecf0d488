//! Parses `/proc/kallsyms`, including the symbols of modules. A line is `address type name
//! [module]`.
//!
//! The module identifies a driver's functions, but existing parsers drop the module. All names
//! share one buffer, because a kernel has some hundred thousand of them.

/// The index of a kernel function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SymbolId(u32);

impl SymbolId {
    /// The index in the table.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Length of the longest function. An address further from its symbol is in no function.
const FUNCTION_LIMIT_BYTES: u64 = 1 << 20;

/// Prefix of the symbols for padding before a function. Padding never runs, so these addresses are
/// assigned to the function.
const PADDING_PREFIX: &str = "__pfx_";

/// Functions by address.
#[derive(Clone, Debug, Default)]
pub struct KernelSymbols {
    names: String,
    modules: Vec<String>,
    functions: Vec<Function>,
    hidden: bool,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    address: u64,
    name_start: u32,
    name_length: u16,
    /// 0 for the kernel itself, else the index in `modules` plus one.
    module: u16,
    /// Whether the name is global. Of several names for one address, a global one is preferred.
    global: bool,
}

impl KernelSymbols {
    /// Parses the text of `/proc/kallsyms`. Lines that describe no function are ignored.
    pub fn parse(text: &str) -> Self {
        let mut symbols = Self::default();
        let mut zeros = 0_usize;
        for line in text.lines() {
            let Some((address, global, name, module)) = function_line(line) else {
                continue;
            };
            if address == 0 {
                zeros += 1;
                continue;
            }
            symbols.push(address, global, name, module);
        }
        symbols.hidden = symbols.functions.is_empty() && zeros > 0;
        // The sort is stable. So the first entry of an address is its first global name, or its
        // first local name if it has no global one.
        symbols
            .functions
            .sort_by_key(|function| (function.address, !function.global));
        symbols.functions.dedup_by_key(|function| function.address);
        symbols
    }

    /// Whether there were names but no addresses, because the kernel hides them (kptr_restrict).
    pub const fn are_hidden(&self) -> bool {
        self.hidden
    }

    /// Whether no address can be resolved.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Number of functions in the table.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// The function that contains an address.
    pub fn find(&self, address: u64) -> Option<SymbolId> {
        let after = self
            .functions
            .partition_point(|function| function.address <= address);
        let index = after.checked_sub(1)?;
        let distance = address - self.functions[index].address;
        (distance < FUNCTION_LIMIT_BYTES).then_some(SymbolId(index as u32))
    }

    /// A function's name without the compiler's suffix (`.isra.0`, `.cold`, `.part.0`).
    pub fn name(&self, id: SymbolId) -> &str {
        let function = &self.functions[id.index()];
        let start = function.name_start as usize;
        &self.names[start..start + function.name_length as usize]
    }

    /// A function's first address.
    pub fn address(&self, id: SymbolId) -> u64 {
        self.functions[id.index()].address
    }

    /// The name of the function with this [index](SymbolId::index), if there is one.
    pub fn name_at(&self, index: usize) -> Option<&str> {
        let id = SymbolId(u32::try_from(index).ok()?);
        (index < self.functions.len()).then(|| self.name(id))
    }

    /// The module of a function; `None` if it is built in.
    pub fn module(&self, id: SymbolId) -> Option<&str> {
        let index = self.functions[id.index()].module.checked_sub(1)?;
        Some(&self.modules[index as usize])
    }

    fn push(&mut self, address: u64, global: bool, name: &str, module: Option<&str>) {
        let name = name.strip_prefix(PADDING_PREFIX).unwrap_or(name);
        let name = match name.find('.') {
            Some(end) if end > 0 => &name[..end],
            _ => name,
        };
        let (Ok(name_start), Ok(name_length)) =
            (u32::try_from(self.names.len()), u16::try_from(name.len()))
        else {
            return;
        };
        let module = match module {
            None => 0,
            Some(module) => self.module_number(module),
        };
        self.names.push_str(name);
        self.functions.push(Function {
            address,
            name_start,
            name_length,
            module,
            global,
        });
    }

    /// The number of a module, which is added if it is new. Symbols are grouped by module, so the
    /// module is usually the last one, and the search begins at the end.
    fn module_number(&mut self, module: &str) -> u16 {
        let index = match self.modules.iter().rposition(|known| known == module) {
            Some(index) => index,
            None => {
                self.modules.push(module.to_owned());
                self.modules.len() - 1
            }
        };
        u16::try_from(index + 1).unwrap_or(0)
    }
}

/// If the line describes a function: its address, whether it is global, its name and its module.
fn function_line(line: &str) -> Option<(u64, bool, &str, Option<&str>)> {
    let mut fields = line.split_ascii_whitespace();
    let address = u64::from_str_radix(fields.next()?, 16).ok()?;
    let letter = fields.next()?;
    if !matches!(letter, "t" | "T" | "w" | "W" | "i") {
        return None;
    }
    let name = fields.next()?;
    let module = fields
        .next()
        .and_then(|field| field.strip_prefix('[')?.strip_suffix(']'));
    Some((address, letter == "T", name, module))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TABLE: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 t local_alias
ffffffff81000100 t tcp_ack.isra.0
ffffffff81000200 D a_datum
ffffffff810001f0 t __pfx_loopback_xmit
ffffffff81000210 t loopback_xmit
ffffffffc0000000 t mlx5e_poll\t[mlx5_core]
not a line
";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = KernelSymbols::parse(TABLE);
        let name = |address| symbols.find(address).map(|id| symbols.name(id));
        assert_eq!(name(0xffff_ffff_8100_0000), Some("_stext"));
        assert_eq!(name(0xffff_ffff_8100_01a0), Some("tcp_ack"));
        assert_eq!(name(0xffff_ffff_8100_0205), Some("loopback_xmit"));
        assert_eq!(name(0xffff_ffff_8100_0fff), Some("loopback_xmit"));
        assert_eq!(name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(name(0xffff_ffff_f000_0000), None);
    }

    #[test]
    fn a_function_has_its_module() {
        let symbols = KernelSymbols::parse(TABLE);
        let driver = symbols.find(0xffff_ffff_c000_0010).unwrap();
        assert_eq!(symbols.module(driver), Some("mlx5_core"));
        let own = symbols.find(0xffff_ffff_8100_0000).unwrap();
        assert_eq!(symbols.module(own), None);
    }

    #[test]
    fn addresses_are_hidden_if_all_are_zero() {
        let symbols = KernelSymbols::parse("0000000000000000 T _stext\n0000000000000000 t a\n");
        assert!(symbols.are_hidden() && symbols.is_empty());
        assert!(!KernelSymbols::parse("").are_hidden());
    }

    proptest! {
        #[test]
        fn the_parser_accepts_any_text(text in "\\PC*", address in any::<u64>()) {
            let symbols = KernelSymbols::parse(&text);
            if let Some(id) = symbols.find(address) {
                prop_assert!(symbols.name(id).len() < text.len());
            }
        }
    }
}
