//! Interrupts of the NIC: for received frames, and for sent ones.

use super::cpu::Interrupted;
use super::footprint::Operation;
use super::{Host, KernelJob, TimedJob};
use crate::connection::WorkQueue;
use crate::context::{Context, Event};
use crate::settings::Interrupt;
use crate::time::{Span, Time};

/// The interrupts for received and for sent frames. An interrupt occurs for the first received
/// frame, but not sooner than `gap` after the last such interrupt. Its handler comes before all
/// other work. It first reads a register of the NIC, and collects all frames that have arrived when it
/// ends. An interrupt for sent frames occurs `send_delay` after the last of them.
pub struct Interrupts {
    gap: Span,
    send_delay: Span,
    /// The earliest time of the next interrupt for received frames.
    earliest: Time,
    state: InterruptState,
    /// Received frames that no handler has collected.
    pub(super) frames: WorkQueue<TimedJob<KernelJob>>,
    /// When the interrupt for sent frames is due, if any frame was sent since the last one.
    send_due: Option<Time>,
    /// Whether a handler runs in the middle of a job.
    preempts: bool,
    /// Whether entry and return count for the interrupted layer.
    charges_interrupted: bool,
    /// The end of the part of an interrupt that preempts a job: its entry or its handler.
    end: Time,
    /// The cycles of all interrupts that have preempted the current job.
    preempted_cycles: u64,
    /// The time of these interrupts by which the end of the job is not delayed yet.
    delay: Span,
}

/// The state of the interrupt line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptState {
    Idle,
    /// The interrupt has an event.
    Due,
    /// The interrupt waits for the processor.
    Raised,
    /// The processor enters the handler.
    Entering,
    /// The processor runs the handler.
    Handled,
    /// The processor enters the handler in the middle of a job.
    EnteringInJob,
    /// The processor runs the handler in the middle of a job.
    Preempting,
}

impl Interrupts {
    /// The interrupts of a machine, if it has any.
    pub fn new(settings: &Interrupt) -> Option<Self> {
        settings.is_on.then(|| Self {
            gap: Span::from_us(u64::from(settings.gap_us)),
            send_delay: Span::from_us(u64::from(settings.send_delay_us)),
            earliest: Time::ZERO,
            state: InterruptState::Idle,
            frames: WorkQueue::default(),
            send_due: None,
            preempts: settings.preempts,
            charges_interrupted: settings.charges_interrupted,
            end: Time::ZERO,
            preempted_cycles: 0,
            delay: Span::ZERO,
        })
    }
}

impl Host {
    /// The interrupt for received frames is due, or a part of one that preempts a job has ended.
    pub fn interrupted(&mut self, context: &mut Context) {
        let Some(interrupts) = &mut self.interrupts else {
            return;
        };
        match interrupts.state {
            InterruptState::Due if interrupts.earliest <= context.now => {
                interrupts.state = InterruptState::Raised;
                interrupts.earliest = context.now + interrupts.gap;
                self.preempt_or_wake(context);
            }
            InterruptState::EnteringInJob if interrupts.end <= context.now => {
                interrupts.state = InterruptState::Preempting;
                let before = self.kernel.cpu.cycles();
                self.read_register(context);
                self.run_driver(context);
                self.preempted_since(before, context);
            }
            InterruptState::Preempting if interrupts.end <= context.now => {
                if interrupts.frames.len() == 0 {
                    interrupts.state = InterruptState::Idle;
                } else {
                    let before = self.kernel.cpu.cycles();
                    self.run_driver(context);
                    self.preempted_since(before, context);
                }
            }
            _ => {}
        }
    }

    /// An interrupt is raised. Its handler runs now, or after the current job.
    fn preempt_or_wake(&mut self, context: &mut Context) {
        match &mut self.interrupts {
            Some(interrupts)
                if interrupts.preempts
                    && self.is_busy
                    && interrupts.state == InterruptState::Raised =>
            {
                let charges = interrupts.charges_interrupted;
                interrupts.state = InterruptState::EnteringInJob;
                let cpu = &mut self.kernel.cpu;
                let before = cpu.cycles();
                let operation = cpu
                    .operation_at(context.now, interrupts.preempted_cycles)
                    .filter(|_| charges)
                    .map(|operation| match operation {
                        // Ethernet disables interrupts while the driver sends
                        // (ether_output_frame of FreeBSD 4.7).
                        Operation::DriverSend => Operation::EthernetOutput,
                        operation => operation,
                    });
                let interrupted = operation.map_or(Interrupted::Busy, Interrupted::Operation);
                cpu.enter_interrupt(interrupted);
                self.preempted_since(before, context);
            }
            _ => self.wake(context),
        }
    }

    /// The driver's handler begins. It reads a register of the NIC, and waits for the bus.
    fn read_register(&mut self, context: &Context) {
        let wait = (self.io_bus.as_ref()).map_or(Span::ZERO, |bus| bus.wait(context.now));
        self.kernel.cpu.run_handler(wait);
    }

    /// The driver and Ethernet process all frames that have arrived.
    fn run_driver(&mut self, context: &mut Context) {
        let Some(interrupts) = &mut self.interrupts else {
            return;
        };
        while let Some(waiting) = interrupts.frames.pop() {
            if let KernelJob::Frame { frame, buffer } = waiting.job {
                self.kernel.receive_at_driver(frame.connection, buffer);
                let job = TimedJob::new(KernelJob::Input { frame, buffer }, waiting.since);
                self.kernel.jobs.kernel.push(job, &mut context.connections);
            }
            context.connections.release(&waiting);
        }
        self.kernel.cpu.clean();
    }

    /// A handler has delayed the current job by the cycles since `before`.
    fn preempted_since(&mut self, before: u64, context: &mut Context) {
        let cycles = self.kernel.cpu.cycles() - before;
        let span = self.kernel.cpu.span(cycles);
        if let Some(interrupts) = &mut self.interrupts {
            interrupts.preempted_cycles += cycles;
            interrupts.delay += span;
            interrupts.end = context.now + span;
            context.at(interrupts.end, Event::Interrupt);
        }
    }

    /// The time by which handlers delay the end of the current job. Without a delay, the job has
    /// ended.
    pub(super) fn delay_by_interrupts(&mut self) -> Option<Span> {
        let interrupts = self.interrupts.as_mut()?;
        let delay = std::mem::take(&mut interrupts.delay);
        if delay == Span::ZERO {
            interrupts.preempted_cycles = 0;
            return None;
        }
        Some(delay)
    }

    /// The host has posted a frame, which causes an interrupt later.
    pub fn sent(&mut self, context: &mut Context) {
        let Some(interrupts) = &mut self.interrupts else {
            return;
        };
        if interrupts.send_delay == Span::ZERO {
            return;
        }
        let due = context.now + interrupts.send_delay;
        if interrupts.send_due.replace(due).is_none() {
            context.at(due, Event::SendInterrupt);
        }
    }

    /// The interrupt for sent frames may be due.
    pub fn send_interrupted(&mut self, context: &mut Context) {
        let Some(interrupts) = &mut self.interrupts else {
            return;
        };
        match interrupts.send_due {
            Some(due) if due > context.now => context.at(due, Event::SendInterrupt),
            _ => {
                interrupts.send_due = None;
                // An interrupt for received frames handles sent ones as well.
                if matches!(
                    interrupts.state,
                    InterruptState::Idle | InterruptState::Due | InterruptState::Raised
                ) {
                    interrupts.state = InterruptState::Raised;
                }
                self.preempt_or_wake(context);
            }
        }
    }

    /// Enters an interrupt that waits, or runs its handler; false if there is nothing to do.
    pub(super) fn handle_interrupt(&mut self, context: &mut Context) -> bool {
        let Some(interrupts) = &mut self.interrupts else {
            return false;
        };
        if interrupts.state == InterruptState::Handled {
            if interrupts.preempts && interrupts.frames.len() > 0 {
                self.run_driver(context);
                return true;
            }
            interrupts.state = InterruptState::Idle;
            while let Some(frame) = interrupts.frames.pop() {
                let jobs = &mut self.kernel.jobs.kernel;
                jobs.push(frame, &mut context.connections);
                context.connections.release(&frame);
            }
        }
        match interrupts.state {
            InterruptState::Raised => {
                interrupts.state = InterruptState::Entering;
                let interrupted = if self.is_busy {
                    Interrupted::Busy
                } else {
                    Interrupted::Idle
                };
                self.kernel.cpu.enter_interrupt(interrupted);
                true
            }
            InterruptState::Entering => {
                interrupts.state = InterruptState::Handled;
                let preempts = interrupts.preempts;
                self.read_register(context);
                if preempts {
                    self.run_driver(context);
                } else {
                    self.kernel.cpu.clean();
                }
                true
            }
            _ => false,
        }
    }

    /// A frame is in the host's memory. Without interrupts the kernel learns of it at once.
    pub(super) fn add_frame(&mut self, job: KernelJob, context: &mut Context) {
        let Some(interrupts) = &mut self.interrupts else {
            return self.add_kernel_job(job, context);
        };
        let job = TimedJob::new(job, context.now);
        interrupts.frames.push(job, &mut context.connections);
        if interrupts.state == InterruptState::Idle {
            interrupts.state = InterruptState::Due;
            let due = interrupts.earliest.max(context.now);
            context.at(due, Event::Interrupt);
        }
    }
}
