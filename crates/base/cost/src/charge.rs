//! The layer and the kind of work to which a call chain is charged. The chain determines the layer,
//! and the leaf function determines the kind.
//!
//! The search starts at the leaf and follows the callers to the nearest function that has a layer.
//! It stops at an interrupt's entry. So a copy for TCP is a cost of TCP and of kind `copy`. Receive
//! processing that interrupts a send is not a cost of the send. A new function of a new kernel
//! needs no rule. The idle loop is not work.

use crate::category::Category;
use crate::event::Kind;
use crate::layer::Layer;
use crate::rules::{FunctionClass, Owner};

/// The layer, kind and category to which code is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    pub layer: Layer,
    /// The kind of work.
    pub kind: Kind,
    /// The program or the part of the kernel.
    pub category: Category,
    /// Whether a rule matched. If none did, the layer is `other`.
    pub claimed: bool,
    /// Whether the leaf is a function that enables interrupts. A sample that is due while
    /// interrupts are off is taken in such a function, so the leaf does not show the work.
    pub skid: bool,
}

impl Charge {
    const fn unclaimed(skid: bool) -> Self {
        Self {
            layer: Layer::Other,
            kind: Kind::Other,
            category: Category::KernelOther,
            claimed: false,
            skid,
        }
    }

    /// The charge of user code of a category.
    pub const fn user(category: Category) -> Self {
        Self {
            layer: Layer::User,
            kind: Kind::Other,
            category,
            claimed: true,
            skid: false,
        }
    }

    /// The charge of the idle loop, for idle time that no symbols identify.
    pub const fn idle() -> Self {
        Self {
            layer: Layer::Idle,
            kind: Kind::Other,
            category: Category::Idle,
            claimed: true,
            skid: false,
        }
    }

    /// The charge of time that the kernel's accounts assign to a layer. The accounts do not show
    /// the kind of work.
    pub const fn account(layer: Layer) -> Self {
        match layer {
            Layer::User => Self::user(Category::ServerProgram),
            Layer::Idle => Self::idle(),
            Layer::Interrupt => Self {
                layer,
                kind: Kind::Other,
                category: Category::KernelInterrupt,
                claimed: true,
                skid: false,
            },
            _ => Self::unclaimed(false),
        }
    }

    /// The charge of user code of programs other than the server, and of the profiler's work.
    /// Neither is a cost of packets.
    pub const fn other_program() -> Self {
        Self {
            layer: Layer::Other,
            kind: Kind::Other,
            category: Category::OtherPrograms,
            claimed: true,
            skid: false,
        }
    }
}

/// The charge of a call chain. `classes` has the classes of its functions, leaf first. A class is
/// `None` for an address in no function.
pub fn charge_chain(classes: &[Option<FunctionClass>]) -> Charge {
    let skid = matches!(classes.first(), Some(Some(class)) if class.skid);
    let mut kind = None;
    for (depth, class) in classes.iter().enumerate() {
        let Some(class) = class else { continue };
        let is_purpose = |kind: Option<Kind>| kind.is_some_and(Kind::is_purpose);
        if kind.is_none() || (is_purpose(class.kind) && !is_purpose(kind)) {
            kind = class.kind.or(kind);
        }
        let caller = classes.get(depth + 1).copied().flatten();
        let owner = if class.interrupt_entry {
            Some(Owner::INTERRUPT)
        } else if class.owner.is_some() {
            class.owner
        } else if caller.is_some_and(|caller| caller.driver_caller) {
            Some(Owner::DRIVER)
        } else {
            None
        };
        if let Some(owner) = owner {
            return Charge {
                layer: owner.layer,
                kind: kind.unwrap_or(Kind::default_in(owner.layer)),
                category: owner.category,
                claimed: true,
                skid,
            };
        }
        if class.dead_end {
            break;
        }
    }
    Charge::unclaimed(skid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Rules;

    /// The charge of a chain of function names, leaf first, such as `copy < send`. A function of a module is
    /// `name@module`.
    fn charge(chain: &str) -> Charge {
        let rules = Rules::builtin().unwrap();
        let classes: Vec<_> = chain
            .split(" < ")
            .map(|text| match text.split_once('@') {
                Some((name, module)) => Some(rules.function(name, Some(module))),
                None => Some(rules.function(text, None)),
            })
            .collect();
        charge_chain(&classes)
    }

    fn layer_and_kind(chain: &str) -> (Layer, Kind) {
        let charge = charge(chain);
        assert!(charge.claimed, "{chain}");
        (charge.layer, charge.kind)
    }

    #[test]
    fn a_copy_in_tcp_is_charged_to_tcp_as_a_copy() {
        let chain = "__virt_addr_valid < _copy_from_iter < tcp_sendmsg_locked < tcp_sendmsg";
        assert_eq!(layer_and_kind(chain), (Layer::Tcp, Kind::Copy));
        let chain = "_raw_spin_lock_bh < lock_sock_nested < tcp_recvmsg < sock_recvmsg";
        assert_eq!(layer_and_kind(chain), (Layer::Tcp, Kind::Lock));
    }

    #[test]
    fn dma_encryption_and_probes_have_a_kind_with_what_they_call() {
        for (chain, kind) in [
            (
                "_raw_spin_lock < alloc_iova < dma_map_page_attrs < ip_output",
                Kind::Dma,
            ),
            (
                "memcpy < aes_gcm_enc < crypto_aead_encrypt < esp_output < ip_output",
                Kind::Crypto,
            ),
            (
                "chacha_2block < wg_packet_encrypt_worker < ip_output",
                Kind::Crypto,
            ),
            (
                "htab_map_update_elem < bpf_prog_7a_count < trace_call_bpf < kprobe_perf_func < ip_rcv",
                Kind::Probe,
            ),
            ("memcpy < tpacket_rcv < ip_rcv", Kind::Probe),
        ] {
            assert_eq!(layer_and_kind(chain).1, kind, "{chain}");
        }
        let timer = "_raw_spin_unlock_irqrestore < hrtimer_start_range_ns < stmmac_xmit < \
            dev_hard_start_xmit < sch_direct_xmit";
        assert_eq!(layer_and_kind(timer).0, Layer::Driver);
    }

    #[test]
    fn receiving_on_top_of_a_send_is_charged_to_the_receiver() {
        let chain = "ip_rcv_core < ip_rcv < process_backlog < __napi_poll < net_rx_action < \
            handle_softirqs < do_softirq < __local_bh_enable_ip < __dev_queue_xmit < tcp_sendmsg";
        assert_eq!(layer_and_kind(chain), (Layer::Ip, Kind::Protocol));
    }

    #[test]
    fn an_interrupt_is_not_charged_to_what_it_interrupted() {
        let chain = "ktime_get < clock_helper < sysvec_apic_timer_interrupt < \
            asm_sysvec_apic_timer_interrupt < tcp_ack < tcp_v4_rcv";
        assert_eq!(layer_and_kind(chain), (Layer::Interrupt, Kind::Other));
        let chain = "napi_gro_receive < an_unknown_poll < __napi_poll < net_rx_action < \
            handle_softirqs < __irq_exit_rcu < common_interrupt < asm_common_interrupt < do_idle";
        assert_eq!(layer_and_kind(chain), (Layer::Ethernet, Kind::Protocol));
    }

    #[test]
    fn interrupts_of_arm_and_s390x_have_entries() {
        for chain in [
            "a_timer < gic_handle_irq < do_interrupt_handler < el1_interrupt < el1h_64_irq_handler < el1h_64_irq < tcp_ack",
            "a_timer < el0_interrupt < el0t_64_irq_handler < el0t_64_irq",
            "enter_from_kernel_mode < el1_interrupt < el1h_64_irq_handler < tcp_ack",
            "account_helper < do_ext_irq < ext_int_handler < tcp_ack",
            "tpi_helper < do_irq_async < do_io_irq < io_int_handler < tcp_ack",
        ] {
            assert_eq!(layer_and_kind(chain).0, Layer::Interrupt, "{chain}");
        }
        for chain in [
            "a_helper < el0t_64_sync_handler < el0t_64_sync",
            "a_helper < __do_syscall < system_call",
        ] {
            assert_eq!(layer_and_kind(chain).0, Layer::Syscall, "{chain}");
        }
        for chain in ["cpu_do_idle < default_idle_call", "psw_idle_exit"] {
            assert_eq!(layer_and_kind(chain).0, Layer::Idle, "{chain}");
        }
    }

    #[test]
    fn calls_of_other_processors_and_loops_of_softirq_threads_are_interrupts() {
        for chain in [
            "smp_call_function_many_cond < a_caller < kthread",
            "smpboot_thread_fn < kthread < ret_from_fork",
            "kthread_should_park < smpboot_thread_fn < kthread",
            "ksoftirqd_should_run < smpboot_thread_fn < kthread",
        ] {
            assert_eq!(layer_and_kind(chain).0, Layer::Interrupt, "{chain}");
        }
    }

    #[test]
    fn callees_of_napi_poll_and_start_xmit_are_drivers() {
        assert_eq!(
            layer_and_kind("start_xmit < dev_hard_start_xmit < __dev_queue_xmit"),
            (Layer::Driver, Kind::Protocol)
        );
        assert_eq!(
            layer_and_kind("read_helper < odd_nic_poll < __napi_poll < net_rx_action"),
            (Layer::Driver, Kind::Protocol)
        );
        assert_eq!(
            layer_and_kind("mlx_helper@mlx5_core < process_one_work < kthread"),
            (Layer::Driver, Kind::Protocol)
        );
        for own in ["loopback_xmit", "veth_xmit", "tun_net_xmit"] {
            assert_eq!(
                layer_and_kind(&format!("{own} < dev_hard_start_xmit")).0,
                Layer::Driver,
                "{own}"
            );
        }
    }

    #[test]
    fn a_skid_sample_is_marked_and_charged_by_its_chain() {
        let charge = charge("_raw_spin_unlock_irqrestore < sock_def_readable < tcp_data_ready");
        assert_eq!(
            (charge.layer, charge.kind, charge.skid),
            (Layer::Socket, Kind::Wakeup, true)
        );
    }

    #[test]
    fn unknown_work_of_a_kernel_thread_is_unclaimed() {
        let charge = charge("a_new_worker < process_one_work < worker_thread < kthread");
        assert!(!charge.claimed);
        assert_eq!(charge.layer, Layer::Other);
    }

    #[test]
    fn the_idle_loop_is_idle_and_a_wakeup_from_it_is_not() {
        assert_eq!(
            layer_and_kind("pv_native_safe_halt < default_idle < do_idle").0,
            Layer::Idle
        );
        assert_eq!(
            layer_and_kind("finish_task_switch < __schedule < schedule_idle < do_idle").0,
            Layer::Scheduler
        );
    }

    #[test]
    fn a_page_fault_in_a_system_call_is_memory_work() {
        let charge = charge(
            "clear_page_erms < get_page_from_freelist < do_anonymous_page < \
            handle_mm_fault < exc_page_fault < asm_exc_page_fault < _copy_to_iter < tcp_recvmsg",
        );
        assert_eq!(
            (charge.layer, charge.category),
            (Layer::Other, Category::KernelMemory)
        );
    }
}
