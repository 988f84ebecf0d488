//! The kernel's structure at an address.
//!
//! A slab cache has a name and contains objects of one size. Its pages refer to it. So the page of
//! an address leads to the name of the object and to the line in the object. The kernel's symbols
//! show the variables, and the kernel's type information (BTF) has the offsets of members.
//!
//! The addresses are those of x86-64 with four levels of page tables and without random bases
//! (Documentation/arch/x86/x86_64/mm.rst): the guest boots with `nokaslr`.

use std::collections::BTreeMap;

use btfparse::{Integer32Value, Offset, Readable, TypeInformation, TypeVariant};
use rustc_hash::FxHashMap;
use thiserror::Error;

const LINE_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;

const USER_END: u64 = 1 << 47;
const DIRECT: std::ops::Range<u64> = 0xffff_8880_0000_0000..0xffff_c880_0000_0000;
const VMALLOC: std::ops::Range<u64> = 0xffff_c900_0000_0000..0xffff_e900_0000_0000;
const PAGES: std::ops::Range<u64> = 0xffff_ea00_0000_0000..0xffff_eb00_0000_0000;
const IMAGE: std::ops::Range<u64> = 0xffff_ffff_8000_0000..0xffff_ffff_ff00_0000;

/// Size of a stack in bytes. A stack begins at a multiple of this size (`THREAD_SIZE`).
const STACK_BYTES: u64 = 16 << 10;

/// An address that is further from a symbol than this does not belong to the symbol's variable.
const VARIABLE_BYTES: u64 = 1 << 20;

/// Longest name of a cache.
const NAME_BYTES: usize = 32;

/// Largest depth of nested structures at which members have names of their own.
const DEPTH: usize = 6;

/// The types of objects by the name of their cache or variable.
const TYPES: &str = include_str!("../data/structures.toml");

/// Kernel memory by virtual address.
pub trait KernelMemory {
    /// Reads memory; returns whether it is mapped.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;
}

/// The reason why structures cannot be named.
#[derive(Debug, Error)]
pub enum StructuresError {
    /// Type information that cannot be read.
    #[error("the kernel's type information cannot be read: {0}")]
    Types(String),
    /// A member that the types lack.
    #[error("the kernel's type information has no `{0}`")]
    Missing(&'static str),
}

/// A structure of the kernel. Numbers are assigned in the order of first accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructureId(u32);

/// A line of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The structure.
    pub structure: StructureId,
    /// The number of the line, from the start of the object or variable. It is 0 if the start is
    /// unknown.
    pub line: u32,
}

/// The mark of a page that belongs to a slab cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// A bit of the page's flags, up to Linux 6.9.
    Flag(u32),
    /// The upper byte of the page's type, as of Linux 6.12.
    Type(u32),
}

/// Offsets of the members that lead from a page to the name of its cache.
#[derive(Clone, Copy, Debug)]
struct Layout {
    page_bytes: u64,
    flags: u64,
    compound_head: u64,
    page_type: u64,
    slab_cache: u64,
    cache_name: u64,
    cache_size: u64,
    mark: Mark,
}

/// The kernel's type information in memory.
struct Bytes<'a>(&'a [u8]);

impl Readable for Bytes<'_> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> btfparse::Result<()> {
        let end = (offset as usize).saturating_add(buffer.len());
        let part = self.0.get(offset as usize..end).ok_or_else(|| {
            btfparse::Error::new(btfparse::ErrorKind::IOError, "it ends too early")
        })?;
        buffer.copy_from_slice(part);
        Ok(())
    }
}

/// Variables by address.
#[derive(Debug, Default)]
struct Variables(Vec<(u64, String)>);

impl Variables {
    /// The variables in the text of `/proc/kallsyms`. A per-CPU variable has a small address there:
    /// its offset in the area of each processor.
    fn parse(kallsyms: &str) -> Self {
        let variable = |line: &str| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_variable = matches!(words.next()?, "A" | "b" | "B" | "d" | "D" | "r" | "R");
            is_variable.then_some((address, words.next()?.to_owned()))
        };
        let mut variables: Vec<_> = kallsyms.lines().filter_map(variable).collect();
        variables.sort();
        Self(variables)
    }

    fn address_of(&self, name: &str) -> Option<u64> {
        let entry = self.0.iter().find(|(_, own)| own == name);
        entry.map(|(address, _)| *address)
    }

    /// The variable that begins at an address or before it, and the distance.
    fn at(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.0.partition_point(|(begin, _)| *begin <= address);
        let (begin, name) = self.0.get(after.checked_sub(1)?)?;
        (address - begin < VARIABLE_BYTES).then_some((name, address - begin))
    }
}

/// The structures of a kernel.
pub struct Structures {
    types: TypeInformation,
    layout: Layout,
    variables: Variables,
    /// The variables of the server's program: the first and the last address of each, and its name.
    program: Vec<(u64, u64, String)>,
    /// The number of processors that are watched.
    processors: usize,
    /// The variables of each of these processors, once their addresses are known.
    per_processor: Vec<std::ops::Range<u64>>,
    names: Vec<String>,
    by_name: FxHashMap<String, StructureId>,
    /// The structure and size of the objects of each cache.
    caches: FxHashMap<u64, (StructureId, u64)>,
}

impl std::fmt::Debug for Structures {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut fields = formatter.debug_struct("Structures");
        fields.field("names", &self.names).finish_non_exhaustive()
    }
}

impl Structures {
    /// The structures of a kernel with these types (BTF) and symbols (the text of `/proc/kallsyms`).
    /// `processors` is the number of processors whose accesses are named, from processor 0 on.
    ///
    /// # Errors
    ///
    /// The types cannot be read, or lack a member that leads to the name of a cache.
    pub fn new(types: &[u8], kallsyms: &str, processors: usize) -> Result<Self, StructuresError> {
        let types = TypeInformation::new(&Bytes(types))
            .map_err(|error| StructuresError::Types(format!("{error:?}")))?;
        Ok(Self {
            layout: Layout::of(&types)?,
            types,
            variables: Variables::parse(kallsyms),
            program: Vec::new(),
            processors,
            per_processor: Vec::new(),
            names: Vec::new(),
            by_name: FxHashMap::default(),
            caches: FxHashMap::default(),
        })
    }

    /// Names the variables of a program that is loaded at fixed addresses. Each line of `text` has a
    /// variable's address (hexadecimal), its size in bytes and its name. Other lines do not count.
    pub fn name_program(&mut self, text: &str) {
        let variable = |line: &str| {
            let mut words = line.split_whitespace();
            let begin = u64::from_str_radix(words.next()?, 16).ok()?;
            let bytes: u64 = words.next()?.parse().ok()?;
            let name = words.next()?;
            (bytes > 0).then(|| (begin, begin + bytes - 1, format!("{name} (program)")))
        };
        self.program = text.lines().filter_map(variable).collect();
        self.program.sort();
    }

    /// The place of an address in a program's memory.
    fn in_program(&mut self, address: u64) -> Place {
        let after = self
            .program
            .partition_point(|(begin, ..)| *begin <= address);
        match after.checked_sub(1).map(|index| &self.program[index]) {
            Some((begin, end, name)) if address <= *end => {
                // Lines are those of the machine, because a variable may begin within a line.
                let offset = address - begin / LINE_BYTES * LINE_BYTES;
                let name = name.clone();
                self.named(&name, offset)
            }
            _ => self.named("[user memory]", 0),
        }
    }

    /// The place of a virtual address. `stack` is an address in the stack of the code that runs.
    pub fn of(&mut self, address: u64, stack: u64, memory: &impl KernelMemory) -> Place {
        if address < USER_END {
            return self.in_program(address);
        }
        if address / STACK_BYTES == stack / STACK_BYTES {
            return self.named("[stack]", 0);
        }
        if DIRECT.contains(&address) {
            return self.in_page(address, memory);
        }
        if IMAGE.contains(&address) {
            return self.variable(address);
        }
        if PAGES.contains(&address) {
            let bytes = address - PAGES.start;
            return self.named("page", bytes % self.layout.page_bytes);
        }
        if VMALLOC.contains(&address) {
            return self.named("[vmalloc]", 0);
        }
        self.named("[other]", 0)
    }

    fn named(&mut self, name: &str, offset: u64) -> Place {
        let structure = match self.by_name.get(name) {
            Some(known) => *known,
            None => {
                let new = StructureId(self.names.len() as u32);
                self.names.push(name.to_owned());
                self.by_name.insert(name.to_owned(), new);
                new
            }
        };
        Place {
            structure,
            line: (offset / LINE_BYTES) as u32,
        }
    }

    fn variable(&mut self, address: u64) -> Place {
        match self.variables.at(address) {
            Some((name, offset)) => {
                let name = name.to_owned();
                self.named(&name, offset)
            }
            None => self.named("[kernel image]", 0),
        }
    }

    /// The place of an address in the direct map of all memory.
    fn in_page(&mut self, address: u64, memory: &impl KernelMemory) -> Place {
        self.find_processors(memory);
        let mut areas = self.per_processor.iter();
        if let Some(begin) = areas
            .find(|area| area.contains(&address))
            .map(|area| area.start)
        {
            return self.variable(address - begin);
        }
        let number = (address - DIRECT.start) / PAGE_BYTES;
        let layout = self.layout;
        let mut page = PAGES.start + number * layout.page_bytes;
        let head = word(memory, page + layout.compound_head);
        if head & 1 == 1 {
            page = head - 1;
        }
        let is_slab = match layout.mark {
            Mark::Flag(bit) => word(memory, page + layout.flags) >> bit & 1 == 1,
            Mark::Type(byte) => word(memory, page + layout.page_type) as u32 >> 24 == byte,
        };
        if !is_slab {
            return self.named("[pages]", 0);
        }
        let (structure, bytes) = self.cache(word(memory, page + layout.slab_cache), memory);
        let begin = DIRECT.start + (page - PAGES.start) / layout.page_bytes * PAGE_BYTES;
        let line = (address - begin) % bytes.max(1) / LINE_BYTES;
        Place {
            structure,
            line: line as u32,
        }
    }

    /// Reads the addresses of each processor's variables once.
    fn find_processors(&mut self, memory: &impl KernelMemory) {
        if !self.per_processor.is_empty() {
            return;
        }
        let offsets = self.variables.address_of("__per_cpu_offset");
        let bytes = self.variables.address_of("__per_cpu_end").unwrap_or(0);
        let area = |processor| {
            let begin = offsets.map_or(0, |offsets| word(memory, offsets + processor * 8));
            begin..begin + bytes
        };
        self.per_processor = (0..self.processors.max(1) as u64).map(area).collect();
    }

    /// The structure and size of the objects of the cache at an address.
    fn cache(&mut self, address: u64, memory: &impl KernelMemory) -> (StructureId, u64) {
        if let Some(known) = self.caches.get(&address) {
            return *known;
        }
        let name = text(memory, word(memory, address + self.layout.cache_name));
        let bytes = word(memory, address + self.layout.cache_size) & 0xFFFF_FFFF;
        let structure = (self.named(&name, 0).structure, bytes);
        self.caches.insert(address, structure);
        structure
    }

    /// The name of a structure.
    #[must_use]
    pub fn name(&self, structure: StructureId) -> &str {
        self.names
            .get(structure.0 as usize)
            .map_or("", String::as_str)
    }

    /// The members of every structure that was accessed and whose type is known. The key is the
    /// structure's name. A member has its offset in bytes and its name.
    #[must_use]
    pub fn members(&self) -> BTreeMap<String, Vec<(u64, String)>> {
        let types: BTreeMap<String, String> = toml::from_str(TYPES).unwrap_or_default();
        let members = |name: &String| {
            let type_name = types.get(name).unwrap_or(name);
            let id = self.types.id_of(type_name)?;
            let mut members = Vec::new();
            self.add_members(id, 0, "", 0, &mut members);
            (!members.is_empty()).then(|| (name.clone(), members))
        };
        self.names.iter().filter_map(members).collect()
    }

    /// Adds the members of a structure. A member that is a structure longer than a line is replaced
    /// by its own members.
    fn add_members(
        &self,
        id: u32,
        begin: u64,
        prefix: &str,
        depth: usize,
        into: &mut Vec<(u64, String)>,
    ) {
        let list = match self.types.from_id(id) {
            Some(TypeVariant::Struct(own)) => own.member_list().clone(),
            Some(TypeVariant::Union(own)) => own.member_list().clone(),
            _ => return,
        };
        for member in list.iter() {
            let bits = match member.offset() {
                Offset::ByteOffset(bytes) => u64::from(bytes) * 8,
                Offset::BitOffsetAndSize(bits, _) => u64::from(bits),
            };
            let offset = begin + bits / 8;
            let own = member.name().unwrap_or_default();
            let name = match (prefix.is_empty(), own.is_empty()) {
                (true, _) => own.clone(),
                (false, true) => prefix.to_owned(),
                (false, false) => format!("{prefix}.{own}"),
            };
            let bytes = self.types.size_of(member.tid()).unwrap_or(0) as u64;
            let before = into.len();
            if depth < DEPTH && (own.is_empty() || bytes > LINE_BYTES) {
                self.add_members(member.tid(), offset, &name, depth + 1, into);
            }
            if into.len() == before && !own.is_empty() {
                into.push((offset, name));
            }
        }
    }
}

impl Layout {
    fn of(types: &TypeInformation) -> Result<Self, StructuresError> {
        let offset = |structure, member, path| {
            let id = types.id_of(structure);
            match id.and_then(|id| types.offset_of(id, member).ok()) {
                Some((_, Offset::ByteOffset(bytes))) => Ok(u64::from(bytes)),
                _ => Err(StructuresError::Missing(path)),
            }
        };
        let page = types.id_of("page");
        let page_bytes = page.and_then(|id| types.size_of(id).ok());
        let mark = number(types, "pagetype", "PGTY_slab")
            .map(Mark::Type)
            .or_else(|| number(types, "pageflags", "PG_slab").map(Mark::Flag));
        Ok(Self {
            page_bytes: page_bytes.ok_or(StructuresError::Missing("page"))? as u64,
            flags: offset("page", "flags", "page.flags")?,
            compound_head: offset("page", "compound_head", "page.compound_head")?,
            page_type: offset("page", "page_type", "page.page_type")?,
            slab_cache: offset("slab", "slab_cache", "slab.slab_cache")?,
            cache_name: offset("kmem_cache", "name", "kmem_cache.name")?,
            cache_size: offset("kmem_cache", "size", "kmem_cache.size")?,
            mark: mark.ok_or(StructuresError::Missing("PG_slab"))?,
        })
    }
}

/// The value of an enumerator.
fn number(types: &TypeInformation, enumeration: &str, name: &str) -> Option<u32> {
    let TypeVariant::Enum(variants) = types.from_id(types.id_of(enumeration)?)? else {
        return None;
    };
    let value = variants
        .named_value_list()
        .iter()
        .find(|value| value.name == name)?;
    Some(match value.value {
        Integer32Value::Signed(value) => value as u32,
        Integer32Value::Unsigned(value) => value,
    })
}

/// Eight bytes of memory, or zero if nothing is mapped there.
fn word(memory: &impl KernelMemory, address: u64) -> u64 {
    let mut bytes = [0; 8];
    if memory.read(address, &mut bytes) {
        u64::from_le_bytes(bytes)
    } else {
        0
    }
}

/// The text at an address, up to its zero byte.
fn text(memory: &impl KernelMemory, address: u64) -> String {
    let mut bytes = [0; NAME_BYTES];
    if !memory.read(address, &mut bytes) {
        return "[unknown cache]".to_owned();
    }
    let own = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(own).into_owned()
}
