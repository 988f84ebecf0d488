//! The host: a processor that serves kernel jobs before the server's jobs, as a processor serves
//! interrupts before programs.
//!
//! [`kernel`] is the network stack and its system calls, with [`bypass`] for connections on the
//! NIC. [`interrupts`] are those of the NIC, and [`io_bus`] is between the NIC and memory.
//! [`web_server`] and [`bulk_sender`] are the programs that use the kernel. [`cpu`] computes the cost
//! of each operation of [`footprint`] from its instructions and its cache lines, which [`address`]
//! places in memory.

pub mod address;
mod bulk_sender;
mod bypass;
pub mod cost;
pub mod cpu;
pub mod footprint;
mod front_end;
mod interrupts;
mod io_bus;
mod kernel;
pub mod selection;
mod web_server;

pub use bulk_sender::BulkSender;
pub use interrupts::Interrupts;
pub use io_bus::IoBus;
pub use kernel::Kernel;
pub use web_server::WebServer;

use crate::connection::{ConnectionId, RefersToConnection, TimedEndpoint, WorkQueue};
use crate::context::{Command, CommandKind, Context, Event, Frame};
use crate::measure::Queue;
use crate::nic::{HostMemory, Message};
use crate::time::Time;
use cpu::{Cpu, ReceiveBuffer};

/// Work for the kernel.
#[derive(Clone, Copy, Debug)]
enum KernelJob {
    Frame {
        frame: Frame,
        buffer: ReceiveBuffer,
    },
    /// A received frame that has passed the driver and Ethernet.
    Input {
        frame: Frame,
        buffer: ReceiveBuffer,
    },
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

impl RefersToConnection for KernelJob {
    fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::Frame { frame, .. } | Self::Input { frame, .. } => Some(frame.connection),
            Self::Message { connection, .. } | Self::Timer(connection) => Some(connection),
            Self::SoftLimit(_) => None,
        }
    }
}

impl RefersToConnection for UserJob {
    fn connection(&self) -> Option<ConnectionId> {
        match *self {
            Self::Ready(connection) => Some(connection),
            Self::Write => None,
        }
    }
}

/// A job and its time of arrival.
#[derive(Clone, Copy, Debug)]
struct TimedJob<J> {
    job: J,
    since: Time,
}

impl<J> TimedJob<J> {
    const fn new(job: J, since: Time) -> Self {
        Self { job, since }
    }
}

impl<J: RefersToConnection> RefersToConnection for TimedJob<J> {
    fn connection(&self) -> Option<ConnectionId> {
        self.job.connection()
    }
}

/// The jobs that wait for the processor.
#[derive(Default)]
struct Jobs {
    kernel: WorkQueue<TimedJob<KernelJob>>,
    user: WorkQueue<TimedJob<UserJob>>,
}

/// The server's program.
pub enum Application {
    Web(WebServer),
    Bulk(BulkSender),
}

pub struct Host {
    kernel: Kernel,
    application: Application,
    is_busy: bool,
    interrupts: Option<Interrupts>,
    io_bus: Option<IoBus>,
}

impl Host {
    pub const fn new(
        kernel: Kernel,
        application: Application,
        interrupts: Option<Interrupts>,
        io_bus: Option<IoBus>,
    ) -> Self {
        Self {
            kernel,
            application,
            is_busy: false,
            interrupts,
            io_bus,
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
        let is_frame = |waiting: &&TimedJob<KernelJob>| {
            matches!(
                waiting.job,
                KernelJob::Frame { .. } | KernelJob::Input { .. }
            )
        };
        let announced = self.kernel.jobs.kernel.iter().filter(is_frame).count() as u64;
        let waiting = |interrupts: &Interrupts| interrupts.frames.len() as u64;
        announced + self.interrupts.as_ref().map_or(0, waiting)
    }

    /// The connection has ended.
    pub fn forget(&mut self, id: ConnectionId) {
        self.kernel.forget(id);
        if let Application::Web(server) = &mut self.application {
            server.forget(id);
        }
    }

    /// The NIC's message about a connection has been written to memory.
    pub fn on_message(&mut self, connection: ConnectionId, context: &mut Context) {
        let buffer = self.kernel.cpu.dma_receive(bypass::MESSAGE_BYTES);
        self.add_kernel_job(KernelJob::Message { connection, buffer }, context);
    }

    pub fn on_soft_limit(&mut self, limit: u32, context: &mut Context) {
        self.add_kernel_job(KernelJob::SoftLimit(limit), context);
    }

    /// The bulk sender's next segment is due.
    pub fn bulk_due(&mut self, context: &mut Context) {
        let connections = &mut context.connections;
        let job = TimedJob::new(UserJob::Write, context.now);
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
        let job = TimedJob::new(job, context.now);
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
        if let Some(delay) = self.delay_by_interrupts() {
            return context.at(context.now + delay, Event::HostDone);
        }
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
    fn move_frame(&mut self, frame: &Frame, now: Time) -> Option<Time> {
        let bus = self.io_bus.as_mut()?;
        Some(bus.transfer(frame.segment.frame_bytes(), now))
    }

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

    fn take_command(&mut self, command: &Command) {
        self.kernel.take_command(command);
    }

    fn return_command(&mut self, command: Command, context: &mut Context) {
        match command.kind {
            CommandKind::Send {
                bytes,
                more_to_come,
            } => self
                .kernel
                .return_send(command.connection, bytes, more_to_come),
            CommandKind::Read { bytes } => {
                self.kernel.return_read(command.connection, bytes);
            }
            CommandKind::Close => self.kernel.return_close(command.connection),
            _ => return,
        }
        self.add_kernel_job(KernelJob::Timer(command.connection), context);
    }

    fn refuse_send(&mut self, id: ConnectionId) {
        self.kernel.refuse_send(id);
    }
}
