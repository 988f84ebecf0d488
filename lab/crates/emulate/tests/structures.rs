//! The structure at an address, on hand-made memory and types.
#![allow(missing_docs, clippy::expect_used)]

use std::collections::HashMap;

use perpacket_emulate::{KernelMemory, Structures};

const DIRECT: u64 = 0xffff_8880_0000_0000;
const PAGES: u64 = 0xffff_ea00_0000_0000;

/// Type information as Documentation/bpf/btf.rst describes it.
struct Types {
    records: Vec<u8>,
    names: Vec<u8>,
    count: u32,
}

const INTEGER: u32 = 1;

impl Types {
    /// Creates the types. Type 1 has eight bytes, and members may use it.
    fn new() -> Self {
        let mut types = Self {
            records: Vec::new(),
            names: vec![0],
            count: 0,
        };
        types.record("long", 1 << 24, 8, &[64]);
        types
    }

    fn name(&mut self, text: &str) -> u32 {
        let at = self.names.len() as u32;
        self.names.extend(text.as_bytes());
        self.names.push(0);
        at
    }

    /// A record; returns the number of its type.
    fn record(&mut self, name: &str, info: u32, size: u32, rest: &[u32]) -> u32 {
        let name = self.name(name);
        for word in [name, info, size].iter().chain(rest) {
            self.records.extend(word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    fn structure(&mut self, name: &str, bytes: u32, members: &[(&str, u32, u32)]) -> u32 {
        let mut rest = Vec::new();
        for (member, own, offset) in members {
            rest.extend([self.name(member), *own, offset * 8]);
        }
        self.record(name, 4 << 24 | members.len() as u32, bytes, &rest)
    }

    fn enumeration(&mut self, name: &str, values: &[(&str, u32)]) {
        let mut rest = Vec::new();
        for (value, number) in values {
            rest.extend([self.name(value), *number]);
        }
        self.record(name, 6 << 24 | values.len() as u32, 4, &rest);
    }

    fn bytes(&self) -> Vec<u8> {
        let mut all = vec![0x9F, 0xEB, 1, 0];
        let types = self.records.len() as u32;
        for word in [24, 0, types, types, self.names.len() as u32] {
            all.extend(word.to_le_bytes());
        }
        all.extend(&self.records);
        all.extend(&self.names);
        all
    }
}

/// The types of a kernel whose slab pages have this mark.
fn types(mark: (&str, &str, u32)) -> Vec<u8> {
    let mut types = Types::new();
    let page = [("flags", 0), ("compound_head", 8), ("page_type", 48)];
    types.structure("page", 64, &page.map(|(name, at)| (name, INTEGER, at)));
    types.structure("slab", 64, &[("slab_cache", INTEGER, 24)]);
    let cache = [("size", 24), ("name", 96)];
    types.structure(
        "kmem_cache",
        200,
        &cache.map(|(name, at)| (name, INTEGER, at)),
    );
    let inner = types.structure("sock", 72, &[("hash", INTEGER, 0), ("timer", INTEGER, 64)]);
    types.structure(
        "tcp_sock",
        160,
        &[("sk", inner, 0), ("snd_nxt", INTEGER, 136)],
    );
    types.enumeration(mark.0, &[(mark.1, mark.2)]);
    types.bytes()
}

/// Words of memory by address.
#[derive(Default)]
struct Memory(HashMap<u64, u64>);

impl Memory {
    fn text(&mut self, address: u64, text: &str) {
        for (number, part) in format!("{text}\0").as_bytes().chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            let word = u64::from_le_bytes(bytes);
            self.0.insert(address + 8 * number as u64, word);
        }
    }
}

impl KernelMemory for Memory {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        for (number, part) in into.chunks_mut(8).enumerate() {
            let word = self.0.get(&(address + 8 * number as u64));
            part.copy_from_slice(&word.unwrap_or(&0).to_le_bytes()[..part.len()]);
        }
        true
    }
}

/// Page 16 belongs to the cache TCP, whose objects have 160 bytes. Page 17 is its tail page.
fn memory(flags: u64, page_type: u64) -> Memory {
    const CACHE: u64 = DIRECT + 0x9000;
    let mut memory = Memory::default();
    let head = PAGES + 16 * 64;
    let words = [
        (head, flags),
        (head + 48, page_type),
        (head + 24, CACHE),
        (head + 64 + 8, head + 1),
        (CACHE + 24, 160),
        (CACHE + 96, CACHE + 0x800),
        (0xffff_ffff_8200_0000, DIRECT + 0x8000),
    ];
    memory.0.extend(words);
    memory.text(CACHE + 0x800, "TCP");
    memory
}

const SYMBOLS: &str = "\
0000000000000000 A __per_cpu_start
0000000000000040 A softnet_data
0000000000000800 A __per_cpu_end
ffffffff82000000 D __per_cpu_offset
ffffffff82000100 B tcp_hashinfo
ffffffff82000300 T a_function
";

/// The name and line of the structure at each address, with a stack at 0xffffc90000010000.
fn places(types: &[u8], memory: &Memory, addresses: &[u64]) -> Vec<(String, u32)> {
    let mut structures = Structures::new(types, SYMBOLS, 1).expect("whole types");
    let place = |address: &u64| {
        let structure = structures.of(*address, 0xffff_c900_0001_0000, memory);
        (
            structures.name(structure.structure).to_owned(),
            structure.line,
        )
    };
    addresses.iter().map(place).collect()
}

fn named(expected: &[(&str, u32)]) -> Vec<(String, u32)> {
    let own = |(name, line): &(&str, u32)| ((*name).to_owned(), *line);
    expected.iter().map(own).collect()
}

#[test]
fn an_object_of_a_slab_has_the_name_of_its_cache_and_its_own_lines() {
    let objects = DIRECT + 16 * 4096;
    // The four addresses: the first line of the first object, its second line, the third line of
    // the sixth object, and the first line of an object that begins on the tail page.
    let addresses = [
        objects,
        objects + 64,
        objects + 5 * 160 + 130,
        objects + 26 * 160,
    ];
    let expected = named(&[("TCP", 0), ("TCP", 1), ("TCP", 2), ("TCP", 0)]);
    let old = types(("pageflags", "PG_slab", 9));
    assert_eq!(places(&old, &memory(1 << 9, 0), &addresses), expected);
    let new = types(("pagetype", "PGTY_slab", 0xf5));
    assert_eq!(places(&new, &memory(0, 0xf500_0000), &addresses), expected);
    // Without the mark, the addresses are in ordinary pages.
    assert_eq!(
        places(&old, &memory(0, 0), &addresses[..1]),
        named(&[("[pages]", 0)])
    );
}

#[test]
fn other_addresses_are_variables_stacks_and_user_memory() {
    let addresses = [
        0x7fff_0000_0000,
        0xffff_c900_0001_2000,
        0xffff_c900_0001_4000,
        DIRECT + 0x8000 + 0x85,
        0xffff_ffff_8200_0100 + 130,
        PAGES + 16 * 64 + 8,
        DIRECT + 3 * 4096,
        0xffff_fe00_0000_0000,
    ];
    let expected = [
        ("[user memory]", 0),
        ("[stack]", 0),
        ("[vmalloc]", 0),
        ("softnet_data", 1),
        ("tcp_hashinfo", 2),
        ("page", 0),
        ("[pages]", 0),
        ("[other]", 0),
    ];
    let types = types(("pageflags", "PG_slab", 9));
    assert_eq!(
        places(&types, &memory(1 << 9, 0), &addresses),
        named(&expected)
    );
}

#[test]
fn members_of_long_members_have_their_path_and_offset() {
    let types = types(("pageflags", "PG_slab", 9));
    let memory = memory(1 << 9, 0);
    let mut structures = Structures::new(&types, SYMBOLS, 1).expect("whole types");
    structures.of(DIRECT + 16 * 4096, 0, &memory);
    let members = structures.members();
    let own: Vec<_> = members["TCP"]
        .iter()
        .map(|(at, name)| (*at, name.as_str()))
        .collect();
    assert_eq!(own, [(0, "sk.hash"), (64, "sk.timer"), (136, "snd_nxt")]);
}

#[test]
fn types_that_cannot_be_read_or_lack_a_member_are_errors() {
    let error = |bytes: &[u8]| {
        Structures::new(bytes, SYMBOLS, 1)
            .expect_err("no types")
            .to_string()
    };
    assert!(error(b"no types").contains("cannot be read"));
    let whole = types(("pageflags", "PG_slab", 9));
    for length in [0, 3, 24, whole.len() / 2, whole.len() - 1] {
        assert!(!error(&whole[..length]).is_empty());
    }
    let unmarked = types(("pageflags", "PG_locked", 0));
    assert!(error(&unmarked).contains("`PG_slab`"));
}
