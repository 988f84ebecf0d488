//! The programs. XDP programs process a frame before the kernel's network stack does.

use perpacket_linux::bpf::{
    Assembler, Condition, MAX_CLOCK_READINGS, Numbers, Register, TIME_NS, Width,
};

use crate::error::RouterError;
use crate::frame::{ETHERNET_BYTES, IPV4_BYTES, Mac};
use crate::stream::{MARK_AT, Stream};

use Condition::{Above, AtLeast, Below, Equal, NotEqual};
use Register::{R0, R1, R2, R3, R4, R6, R7, R8, R10};
use Width::{Byte, Double, Half, Word};

/// Results of a program (linux/bpf.h, `xdp_action`).
const DROP: i32 = 1;
const PASS: i32 = 2;

/// Helper functions of the kernel (linux/bpf.h, `bpf_func_id`).
const REDIRECT: i32 = 23;
const FIB_LOOKUP: i32 = 69;
const FRAME_BYTES: i32 = 188;

/// Offsets in a program's argument: the frame's begin and end, and the ingress interface (linux/bpf.h,
/// `struct xdp_md`).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const INGRESS: i16 = 12;

/// Bytes of `struct bpf_fib_lookup`, and the offsets of its members.
const LOOKUP_BYTES: i16 = 64;
mod lookup {
    pub const FAMILY: i16 = 0;
    pub const TOTAL_LENGTH: i16 = 6;
    pub const INTERFACE: i16 = 8;
    pub const SERVICE: i16 = 12;
    pub const SOURCE: i16 = 16;
    pub const TARGET: i16 = 32;
    pub const SOURCE_MAC: i16 = 52;
    pub const TARGET_MAC: i16 = 58;
}

/// Offsets in an Ethernet frame with an IPv4 packet.
const TARGET_MAC: i16 = 0;
const SOURCE_MAC: i16 = 6;
const ETHERTYPE: i16 = 12;
const IP: i16 = ETHERNET_BYTES as i16;
const HEADERS: i32 = (ETHERNET_BYTES + IPV4_BYTES) as i32;

/// Passes every frame to the kernel. A veth device with this program accepts frames that other
/// programs redirect to its peer.
pub fn pass() -> Assembler {
    let mut program = Assembler::default();
    program.set(R0, PASS).exit();
    program
}

/// Sends every frame through an interface at its due time, with the headers of a stream. The
/// numbers of `pace` are in nanoseconds: the due time of the next frame (monotonic), the time
/// between frames, and the time at which the program sent the latest frame. The program itself
/// waits for the due times, because a call that runs it needs milliseconds of set-up. The
/// caller computes the duration of a call from the time of the latest frame, because the duration
/// that the kernel reports excludes the time for which the call was preempted.
///
/// The program writes all headers of each frame. The kernel reuses pages, in which a router has
/// already changed addresses, TTL and checksum.
///
/// # Errors
/// The stream's frame size is out of range.
pub fn redirect(
    stream: &Stream,
    interface_index: u32,
    pace: &Numbers,
) -> Result<Assembler, RouterError> {
    let frame = stream.frame()?;
    let mut program = Assembler::default();
    program
        .load(Word, R7, R1, DATA)
        .load(Word, R8, R1, DATA_END)
        .copy(R2, R7)
        .add(R2, MARK_AT as i32)
        .jump_if_register(R2, Above, R8, "drop");
    let (halves, _) = frame[..MARK_AT].as_chunks::<2>();
    for (index, half) in halves.iter().enumerate() {
        let value = i32::from(u16::from_ne_bytes(*half));
        program.store_number(Half, R7, index as i16 * 2, value);
    }
    program.find_numbers(pace, "drop");
    program
        .copy(R6, R0)
        .set(R8, 0)
        .label("early")
        .call(TIME_NS)
        .load(Double, R1, R6, 0)
        .jump_if_register(R0, AtLeast, R1, "due")
        .add(R8, 1)
        .jump_if(R8, Below, MAX_CLOCK_READINGS, "early")
        .label("due")
        .store(Double, R6, 16, R0)
        .load(Double, R1, R6, 0)
        .load(Double, R2, R6, 8)
        .add_register(R1, R2)
        .store(Double, R6, 0, R1)
        .set(R1, interface_index as i32)
        .set(R2, 0)
        .call(REDIRECT)
        .exit()
        .label("drop")
        .set(R0, DROP)
        .exit();
    Ok(program)
}

/// Counts the frames and bytes of a stream and drops them. Passes other frames to the kernel.
pub fn count(stream: &Stream, counts: &Numbers) -> Assembler {
    let mark = stream.mark();
    let half = |at: usize| i32::from(u16::from_ne_bytes([mark[at], mark[at + 1]]));
    let mut program = Assembler::default();
    program
        .copy(R6, R1)
        .load(Word, R7, R1, DATA)
        .load(Word, R8, R1, DATA_END)
        .copy(R2, R7)
        .add(R2, MARK_AT as i32 + 8)
        .jump_if_register(R2, Above, R8, "pass");
    for at in [0, 2, 4, 6] {
        program
            .load(Half, R3, R7, MARK_AT as i16 + at as i16)
            .jump_if(R3, NotEqual, half(at), "pass");
    }
    program.copy(R1, R6).call(FRAME_BYTES).copy(R7, R0);
    program
        .find_numbers(counts, "pass")
        .set(R1, 1)
        .add_atomically(R0, 0, R1)
        .add_atomically(R0, 8, R7)
        .set(R0, DROP)
        .exit()
        .label("pass")
        .set(R0, PASS)
        .exit();
    program
}

/// Forwards frames for the Ethernet address `mac` by the kernel's routes. The kernel gets all other
/// frames: other protocols, malformed packets, martians, and packets that have IP options, are on
/// their last hop, are longer than the MTU, or go to unknown neighbours or to the host itself.
pub fn forward(mac: Mac) -> Assembler {
    let mut program = Assembler::default();
    program
        .copy(R6, R1)
        .load(Word, R7, R1, DATA)
        .load(Word, R8, R1, DATA_END)
        .copy(R2, R7)
        .add(R2, HEADERS)
        .jump_if_register(R2, Above, R8, "pass");
    accept(&mut program, mac);
    look_up(&mut program);
    rewrite(&mut program);
    program
        .load(Word, R1, R10, lookup::INTERFACE - LOOKUP_BYTES)
        .set(R2, 0)
        .call(REDIRECT)
        .exit()
        .label("pass")
        .set(R0, PASS)
        .exit();
    program
}

/// Accepts a frame for this interface if its IPv4 packet is well-formed and has hops left, but has
/// neither options nor martian addresses. Passes other frames to the kernel. R6 is the program's
/// argument, and R7 is the frame.
fn accept(program: &mut Assembler, mac: Mac) {
    for (index, half) in mac.as_chunks::<2>().0.iter().enumerate() {
        program
            .load(Half, R2, R7, TARGET_MAC + index as i16 * 2)
            .jump_if(R2, NotEqual, i32::from(u16::from_ne_bytes(*half)), "pass");
    }
    program
        .load(Half, R2, R7, ETHERTYPE)
        .from_network_16(R2)
        .jump_if(R2, NotEqual, 0x0800, "pass")
        .load(Byte, R2, R7, IP)
        .jump_if(R2, NotEqual, 0x45, "pass")
        .load(Byte, R2, R7, IP + 8)
        .jump_if(R2, Below, 2, "pass");
    for address in [IP + 12, IP + 16] {
        program
            .load(Byte, R2, R7, address)
            .jump_if(R2, Equal, 0, "pass")
            .jump_if(R2, Equal, 127, "pass")
            .jump_if(R2, AtLeast, 224, "pass");
    }
    // The total length is at least the header's, and at most the frame's.
    program
        .copy(R1, R6)
        .call(FRAME_BYTES)
        .load(Half, R2, R7, IP + 2)
        .from_network_16(R2)
        .jump_if(R2, Below, IPV4_BYTES as i32, "pass")
        .add(R2, ETHERNET_BYTES as i32)
        .jump_if_register(R2, Above, R0, "pass");
    // If the checksum is correct, all bits of the sum of the header's words are ones.
    program.set(R2, 0);
    for at in 0..IPV4_BYTES as i16 / 2 {
        program.load(Half, R3, R7, IP + at * 2).add_register(R2, R3);
    }
    program
        .copy(R3, R2)
        .shift_right(R3, 16)
        .and(R2, 0xffff)
        .add_register(R2, R3)
        .copy(R3, R2)
        .shift_right(R3, 16)
        .and(R2, 0xffff)
        .add_register(R2, R3)
        .jump_if(R2, NotEqual, 0xffff, "pass");
}

/// Looks up the packet's route. Passes the packet to the kernel if there is none.
fn look_up(program: &mut Assembler) {
    let at = |member: i16| member - LOOKUP_BYTES;
    for eighth in 0..LOOKUP_BYTES / 8 {
        program.store_number(Double, R10, at(eighth * 8), 0);
    }
    program
        .store_number(Byte, R10, at(lookup::FAMILY), libc::AF_INET)
        .load(Half, R2, R7, IP + 2)
        .from_network_16(R2)
        .store(Half, R10, at(lookup::TOTAL_LENGTH), R2)
        .load(Word, R2, R6, INGRESS)
        .store(Word, R10, at(lookup::INTERFACE), R2)
        .load(Byte, R2, R7, IP + 1)
        .store(Byte, R10, at(lookup::SERVICE), R2)
        .load(Word, R2, R7, IP + 12)
        .store(Word, R10, at(lookup::SOURCE), R2)
        .load(Word, R2, R7, IP + 16)
        .store(Word, R10, at(lookup::TARGET), R2)
        .copy(R1, R6)
        .copy(R2, R10)
        .add(R2, i32::from(-LOOKUP_BYTES))
        .set(R3, i32::from(LOOKUP_BYTES))
        .set(R4, 0)
        .call(FIB_LOOKUP)
        .jump_if(R0, NotEqual, 0, "pass");
}

/// Decrements the TTL, updates the checksum and writes the Ethernet addresses of the next link.
fn rewrite(program: &mut Assembler) {
    // The TTL is the high byte of its word. So the sum falls by 0x0100, and the checksum rises by
    // 0x0100, with the carry added back (RFC 1624).
    let rise = i32::from(u16::from_ne_bytes([1, 0]));
    program
        .load(Byte, R2, R7, IP + 8)
        .add(R2, -1)
        .store(Byte, R7, IP + 8, R2)
        .load(Half, R2, R7, IP + 10)
        .add(R2, rise)
        .jump_if(R2, Below, 0xffff, "sum")
        .add(R2, 1)
        .label("sum")
        .store(Half, R7, IP + 10, R2);
    for (from, to) in [
        (lookup::TARGET_MAC, TARGET_MAC),
        (lookup::SOURCE_MAC, SOURCE_MAC),
    ] {
        for half in [0, 2, 4] {
            program
                .load(Half, R2, R10, from - LOOKUP_BYTES + half)
                .store(Half, R7, to + half, R2);
        }
    }
}
