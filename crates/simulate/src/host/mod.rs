//! The host: a processor that serves kernel jobs before the server's jobs, as a processor serves
//! interrupts before programs.
//!
//! [`kernel`] is the network stack and its system calls, with [`bypass`] for connections on the
//! NIC. [`web_server`] and [`bulk_sender`] are the programs that use it. [`cpu`] computes the cost
//! of each operation of [`footprint`] from its instructions and its cache lines, which [`address`]
//! places in memory.

pub mod address;
mod bulk_sender;
mod bypass;
pub mod cost;
pub mod cpu;
pub mod footprint;
mod front_end;
mod kernel;
pub mod selection;
mod web_server;

pub use bulk_sender::BulkSender;
pub use kernel::Kernel;
pub use web_server::WebServer;

use crate::connection::{ConnectionId, TimedEndpoint, Work, WorkQueue};
use crate::context::{Command, CommandKind, Context, Event, Frame};
use crate::measure::Queue;
use crate::nic::{HostMemory, Message};
use crate::settings::Interrupt;
use crate::time::{Span, Time};
use cpu::{Cpu, ReceiveBuffer};

/// Work for the kernel.
#[derive(Clone, Copy, Debug)]
enum KernelJob {
    /// A received frame in this buffer.
    Frame { frame: Frame, buffer: ReceiveBuffer },
    /// The NIC's message about a connection, in this buffer.
    Message {
        connection: ConnectionId,
        buffer: ReceiveBuffer,
    },
    /// A TCP timer of a connection.
    Timer(ConnectionId),
    /// The NIC's new soft limit: the maximum number of connections that it accepts.
    SoftLimit(u32),
}

/// Work for the server's process.
#[derive(Clone, Copy, Debug)]
enum UserJob {
    /// A connection is ready for the server.
    Ready(ConnectionId),
    /// The bulk sender's next write.
    Write,
}

impl Work for KernelJob {
    fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::Frame { frame, .. } => Some(frame.connection),
            Self::Message { connection, .. } | Self::Timer(connection) => Some(connection),
            Self::SoftLimit(_) => None,
        }
    }
}

impl Work for UserJob {
    fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::Ready(connection) => Some(connection),
            Self::Write => None,
        }
    }
}

/// A job and its time of arrival.
#[derive(Clone, Copy, Debug)]
struct Since<J> {
    job: J,
    since: Time,
}

impl<J> Since<J> {
    const fn new(job: J, since: Time) -> Self {
        Self { job, since }
    }
}

impl<J: Work> Work for Since<J> {
    fn connection(&self) -> Option<ConnectionId> {
        self.job.connection()
    }
}

/// The jobs that wait for the processor.
#[derive(Default)]
struct Jobs {
    kernel: WorkQueue<Since<KernelJob>>,
    user: WorkQueue<Since<UserJob>>,
}

/// The server's program.
pub enum Application {
    Web(WebServer),
    Bulk(BulkSender),
}

/// The host.
pub struct Host {
    kernel: Kernel,
    application: Application,
    is_busy: bool,
    interrupts: Option<Interrupts>,
}

/// The interrupts for received and for sent frames. An interrupt occurs for the first received
/// frame, but not sooner than `gap` after the last such interrupt. Its handler comes before all
/// other work, and collects all frames that have arrived when it ends. An interrupt for sent frames
/// occurs `send_delay` after the last of them.
pub struct Interrupts {
    gap: Span,
    send_delay: Span,
    /// The earliest time of the next interrupt for received frames.
    earliest: Time,
    state: InterruptState,
    /// Received frames that no handler has collected.
    frames: WorkQueue<Since<KernelJob>>,
    /// When the interrupt for sent frames is due, if any frame was sent since the last one.
    send_due: Option<Time>,
}

/// The state of the interrupt line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptState {
    Idle,
    /// The interrupt has an event.
    Due,
    /// The interrupt waits for the processor.
    Raised,
    /// The processor runs the handler.
    Handled,
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
        })
    }
}

impl Host {
    pub const fn new(
        kernel: Kernel,
        application: Application,
        interrupts: Option<Interrupts>,
    ) -> Self {
        Self {
            kernel,
            application,
            is_busy: false,
            interrupts,
        }
    }

    pub const fn cpu(&self) -> &Cpu {
        &self.kernel.cpu
    }

    pub const fn is_web_server(&self) -> bool {
        matches!(self.application, Application::Web(_))
    }

    /// Frames that wait for the processor.
    pub fn waiting_frames(&self) -> u64 {
        let is_frame = |waiting: &&Since<KernelJob>| matches!(waiting.job, KernelJob::Frame { .. });
        let announced = self.kernel.jobs.kernel.iter().filter(is_frame).count() as u64;
        let waiting = |interrupts: &Interrupts| interrupts.frames.len() as u64;
        announced + self.interrupts.as_ref().map_or(0, waiting)
    }

    /// The interrupt for received frames is due.
    pub fn interrupted(&mut self, context: &mut Context) {
        if let Some(interrupts) = &mut self.interrupts
            && interrupts.state == InterruptState::Due
        {
            interrupts.state = InterruptState::Raised;
            interrupts.earliest = context.now + interrupts.gap;
            self.wake(context);
        }
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
                if interrupts.state != InterruptState::Handled {
                    interrupts.state = InterruptState::Raised;
                }
                self.wake(context);
            }
        }
    }

    /// Runs the handler of an interrupt that waits; false if none does.
    fn handle_interrupt(&mut self, context: &mut Context) -> bool {
        let Some(interrupts) = &mut self.interrupts else {
            return false;
        };
        if interrupts.state == InterruptState::Handled {
            interrupts.state = InterruptState::Idle;
            while let Some(frame) = interrupts.frames.pop() {
                let jobs = &mut self.kernel.jobs.kernel;
                jobs.push(frame, &mut context.connections);
                context.connections.release(&frame);
            }
        }
        let is_raised = interrupts.state == InterruptState::Raised;
        if is_raised {
            interrupts.state = InterruptState::Handled;
            self.kernel.cpu.run_interrupt();
        }
        is_raised
    }

    /// A frame is in the host's memory. Without interrupts the kernel learns of it at once.
    fn add_frame(&mut self, job: KernelJob, context: &mut Context) {
        let Some(interrupts) = &mut self.interrupts else {
            return self.add_kernel_job(job, context);
        };
        let job = Since::new(job, context.now);
        interrupts.frames.push(job, &mut context.connections);
        if interrupts.state == InterruptState::Idle {
            interrupts.state = InterruptState::Due;
            let due = interrupts.earliest.max(context.now);
            context.at(due, Event::Interrupt);
        }
    }

    /// The connection has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.kernel.forget(id);
        if let Application::Web(server) = &mut self.application {
            server.forget(id);
        }
    }

    /// The NIC's message about a connection has been written to memory.
    pub fn message_arrived(&mut self, connection: ConnectionId, context: &mut Context) {
        let buffer = self.kernel.cpu.dma_receive(bypass::MESSAGE_BYTES);
        self.add_kernel_job(KernelJob::Message { connection, buffer }, context);
    }

    pub fn soft_limit_arrived(&mut self, limit: u32, context: &mut Context) {
        self.add_kernel_job(KernelJob::SoftLimit(limit), context);
    }

    /// The bulk sender's next segment is due.
    pub fn bulk_due(&mut self, context: &mut Context) {
        let connections = &mut context.connections;
        let job = Since::new(UserJob::Write, context.now);
        self.kernel.jobs.user.push(job, connections);
        self.wake(context);
    }

    /// A timer event of a connection that the NIC does not run.
    pub fn timer(&mut self, id: ConnectionId, context: &mut Context) {
        if self.kernel.timer_is_due(id, context) {
            self.add_kernel_job(KernelJob::Timer(id), context);
        }
    }

    fn add_kernel_job(&mut self, job: KernelJob, context: &mut Context) {
        let job = Since::new(job, context.now);
        self.kernel.jobs.kernel.push(job, &mut context.connections);
        self.wake(context);
    }

    fn wake(&mut self, context: &mut Context) {
        if !self.is_busy {
            self.job_done(context);
        }
    }

    /// The processor begins its next job, kernel jobs first.
    pub fn job_done(&mut self, context: &mut Context) {
        self.kernel.cpu.begin(context.now);
        if self.handle_interrupt(context) {
            // Its handler comes first.
        } else if let Some(waiting) = self.kernel.jobs.kernel.pop() {
            let waited = context.now.since(waiting.since);
            context.measure.waited(Queue::HostKernel, waited);
            self.kernel.run(waiting.job, context);
            context.connections.release(&waiting);
        } else if let Some(waiting) = self.kernel.jobs.user.pop() {
            let waited = context.now.since(waiting.since);
            context.measure.waited(Queue::HostUser, waited);
            self.run_user(waiting.job, context);
            context.connections.release(&waiting);
        } else {
            self.is_busy = false;
            return;
        }
        self.is_busy = true;
        context.at(self.kernel.cpu.time(), Event::HostDone);
    }

    fn run_user(&mut self, job: UserJob, context: &mut Context) {
        let kernel = &mut self.kernel;
        match (job, &mut self.application) {
            (UserJob::Ready(id), Application::Web(server)) => server.serve(id, kernel, context),
            (UserJob::Ready(id), Application::Bulk(sender)) => sender.accept(id, kernel, context),
            (UserJob::Write, Application::Bulk(sender)) => sender.write(kernel, context),
            (UserJob::Write, Application::Web(_)) => {}
        }
    }
}

impl HostMemory for Host {
    fn write_frame(&mut self, frame: Frame, context: &mut Context) {
        let bytes = frame.segment.wire_bytes() as u32;
        let buffer = self.kernel.cpu.dma_receive(bytes);
        self.kernel.prepare(frame.connection);
        self.add_frame(KernelJob::Frame { frame, buffer }, context);
    }

    fn write_message(&mut self, id: ConnectionId, add: impl FnOnce(&mut Message)) -> bool {
        self.kernel.write_message(id, add)
    }

    fn take_connection(&mut self, id: ConnectionId) -> Option<Box<TimedEndpoint>> {
        self.kernel.take_connection(id)
    }

    fn return_connection(&mut self, id: ConnectionId, end: Box<TimedEndpoint>) {
        self.kernel.return_connection(id, end);
    }

    fn command_taken(&mut self, command: &Command) {
        self.kernel.command_taken(command);
    }

    fn return_command(&mut self, command: Command, context: &mut Context) {
        match command.kind {
            CommandKind::Send {
                bytes,
                more_to_come,
            } => self
                .kernel
                .send_returned(command.connection, bytes, more_to_come),
            CommandKind::Read { bytes } => {
                self.kernel.read_returned(command.connection, bytes);
            }
            CommandKind::Close => self.kernel.close_returned(command.connection),
            _ => return,
        }
        self.add_kernel_job(KernelJob::Timer(command.connection), context);
    }

    fn send_refused(&mut self, id: ConnectionId) {
        self.kernel.send_refused(id);
    }
}
