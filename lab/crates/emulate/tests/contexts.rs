//! Compares the context that the call stack determines with the context that the profiler's rules
//! determine from the whole call chain.
#![allow(missing_docs, clippy::expect_used)]

use perpacket_cost::{Direction, FunctionClass, KernelSymbols, Kind, Layer, Rules, charge_chain};
use perpacket_emulate::{Context, Functions, Tracker, Work};
use proptest::prelude::*;

/// Functions of every kind that the rules distinguish.
const NAMES: [&str; 18] = [
    "do_syscall_64",
    "sock_sendmsg",
    "tcp_sendmsg",
    "tcp_v4_rcv",
    "ip_output",
    "__dev_queue_xmit",
    "dev_hard_start_xmit",
    "__napi_poll",
    "odd_nic_poll",
    "unknown_helper",
    "_copy_from_iter",
    "kmem_cache_alloc",
    "_raw_spin_lock",
    "common_interrupt",
    "handle_softirqs",
    "do_idle",
    "clear_page_erms",
    "kthread",
];

/// Functions that others call: all but the last, where threads begin.
const CALLED: usize = NAMES.len() - 1;

const FIRST: u64 = 0xffff_ffff_8100_0000;
const FUNCTION_BYTES: u64 = 0x100;

fn functions() -> Functions {
    let line = |(index, name): (usize, &&str)| {
        format!("{:x} T {name}\n", FIRST + index as u64 * FUNCTION_BYTES)
    };
    let text: String = NAMES.iter().enumerate().map(line).collect();
    Functions::new(
        KernelSymbols::parse(&text),
        Rules::builtin().expect("valid"),
    )
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Call(usize),
    Return,
    /// Another block of the same function.
    Continue,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..CALLED).prop_map(Step::Call),
        3 => Just(Step::Return),
        1 => Just(Step::Continue),
    ];
    prop::collection::vec(step, 1..120)
}

/// The address at which a call at this depth stores its return address.
fn stack(depth: usize) -> u64 {
    0xffff_c900_0001_0000 - depth as u64 * 8
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_context_is_the_charge_of_its_chain(first in 0..NAMES.len(), steps in steps()) {
        let rules = Rules::builtin().expect("valid");
        let classes: Vec<FunctionClass> =
            NAMES.iter().map(|name| rules.function(name, None)).collect();
        let mut functions = functions();
        let mut work = |index: usize| functions.at(FIRST + index as u64 * FUNCTION_BYTES).1;
        let mut tracker = Tracker::default();
        tracker.enter(&work(first));
        let mut chain = vec![first];
        for step in steps {
            match step {
                Step::Call(index) => {
                    let caller = work(chain[chain.len() - 1]);
                    if caller.calls_drivers() {
                        tracker.call_driver(stack(chain.len()));
                    } else {
                        tracker.call(stack(chain.len()));
                    }
                    chain.push(index);
                }
                Step::Return if chain.len() > 1 => {
                    chain.pop();
                    tracker.ret(stack(chain.len()));
                }
                Step::Return | Step::Continue => {}
            }
            tracker.enter(&work(chain[chain.len() - 1]));
            let leaf_first: Vec<_> = chain.iter().rev().map(|index| Some(classes[*index])).collect();
            let charge = charge_chain(&leaf_first);
            let context = tracker.current();
            prop_assert_eq!(context.layer(), charge.layer, "{:?}", chain);
            if charge.claimed {
                prop_assert_eq!(context.kind(), charge.kind, "{:?}", chain);
            }
        }
        prop_assert_eq!(tracker.returns().unmatched, 0);
    }
}

fn context(layer: Layer, kind: Kind, direction: Direction) -> Context {
    Context::new(layer, kind, direction)
}

#[test]
fn a_system_call_begins_with_no_direction_and_a_send_has_one() {
    let mut functions = functions();
    let mut work = |name: &str| {
        let index = NAMES
            .iter()
            .position(|other| *other == name)
            .expect("listed");
        functions.at(FIRST + index as u64 * FUNCTION_BYTES).1
    };
    let mut tracker = Tracker::default();
    tracker.enter(&Work::USER);
    assert_eq!(tracker.current(), Context::USER);
    tracker.enter(&work("do_syscall_64"));
    let expected = context(Layer::Syscall, Kind::Other, Direction::Neither);
    assert_eq!(tracker.current(), expected);
    tracker.call(stack(1));
    tracker.enter(&work("tcp_sendmsg"));
    tracker.call(stack(2));
    tracker.enter(&work("_copy_from_iter"));
    let expected = context(Layer::Tcp, Kind::Copy, Direction::Send);
    assert_eq!(tracker.current(), expected);
}

#[test]
fn the_return_from_an_interrupt_restores_what_it_interrupted() {
    let text = "ffffffff81000000 t irq_entries_start\nffffffff81000800 T asm_common_interrupt\n\
                ffffffff81000900 T asm_exc_page_fault\nffffffff81001000 T tcp_ack\n\
                ffffffff81002000 T a_helper\n";
    let mut functions =
        Functions::new(KernelSymbols::parse(text), Rules::builtin().expect("valid"));
    let mut work = |address: u64| functions.at(address).1;
    let frame = 0xffff_c900_0001_0008;
    // The first store is the number of the interrupt, or the return address of a call. The return
    // address is one word below the error code that the processor stored.
    for (entry, first_store) in [
        (0xffff_ffff_8100_0018, frame - 8),
        (0xffff_ffff_8100_0900, frame - 16),
    ] {
        let mut tracker = Tracker::default();
        tracker.enter(&work(0xffff_ffff_8100_1000));
        tracker.call(stack(1));
        tracker.enter(&work(0xffff_ffff_8100_2000));
        let interrupted = tracker.current();
        assert_eq!(interrupted.layer(), Layer::Tcp);
        assert!(work(entry).is_hardware_entry);
        tracker.interrupt();
        tracker.enter(&work(entry));
        tracker.interrupt_store(first_store);
        tracker.enter(&work(0xffff_ffff_8100_0800));
        tracker.call(stack(100));
        assert_ne!(tracker.current(), interrupted);
        tracker.interrupt_return_begins();
        tracker.interrupt_return(frame);
        tracker.interrupt_return(frame + 8);
        assert_eq!(tracker.current(), interrupted);
    }
    assert!(
        !work(0xffff_ffff_8100_0019).is_hardware_entry,
        "inside a stub"
    );
    assert!(
        !work(0xffff_ffff_8100_0800).is_hardware_entry,
        "reached by a jump"
    );
}
