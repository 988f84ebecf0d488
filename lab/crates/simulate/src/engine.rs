//! The simulated system and the loop that delivers its events.
//!
//! A request takes this path. A client's frame crosses the wire to the NIC ([`crate::nic`]). The
//! NIC passes the frame to the host ([`crate::host`]), or processes it itself if the NIC runs the
//! connection. The kernel wakes the server. The server's writes go down the stack or, after a
//! handoff, to the NIC as commands. Frames cross the wire back to the client ([`crate::clients`]).

use crate::clients::Clients;
use crate::context::{Context, Event};
use crate::host::Host;
use crate::nic::Nic;
use crate::timeline::Timeline;

/// The components of a run. Each owns its state; see [`Context`] for what they share.
pub struct Engine {
    pub context: Context,
    pub clients: Clients,
    pub nic: Nic,
    pub host: Host,
    pub timeline: Option<Timeline>,
}

impl Engine {
    /// Delivers the next event; false when there is none.
    pub fn step(&mut self) -> bool {
        let Some((time, event)) = self.context.events.pop() else {
            return false;
        };
        self.context.now = time;
        self.deliver(event);
        self.context.connections.release(&event);
        while let Some(id) = self.context.connections.next_ended() {
            self.host.forget(id);
            self.nic.forget(id);
        }
        true
    }

    fn deliver(&mut self, event: Event) {
        let Self {
            context,
            clients,
            nic,
            host,
            timeline,
        } = self;
        match event {
            Event::AtClient(frame) => clients.arrive(frame, context),
            Event::ClientReadsFrame(frame) => clients.receive(frame, context),
            Event::ClientReady(slot) => clients.ready(slot, context),
            Event::ClientReads(id) => clients.read_more(id, context),
            Event::ClientTimer(id) => clients.timer(id, context),
            Event::AtNic(frame) => nic.receive(frame, host, context),
            Event::Posted(frame) => {
                host.sent(context);
                nic.post(frame, host, context);
            }
            Event::Commanded(command) => nic.command(command, host, context),
            Event::NicDone => nic.task_done(host, context),
            Event::NicMoved => nic.moved(host, context),
            Event::HostDone => host.job_done(context),
            Event::Interrupt => host.interrupted(context),
            Event::SendInterrupt => host.send_interrupted(context),
            Event::MessageAtHost(id) => host.on_message(id, context),
            Event::SoftLimitAtHost(limit) => host.on_soft_limit(limit, context),
            Event::BulkDue => host.bulk_due(context),
            Event::ServerTimer(id) if nic.runs(id) => nic.timer(id, host, context),
            Event::ServerTimer(id) => host.timer(id, context),
            Event::Sample => {
                if let Some(timeline) = timeline {
                    timeline.sample(nic, context);
                }
            }
        }
    }
}
