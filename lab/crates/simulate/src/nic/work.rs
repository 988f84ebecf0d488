//! The kinds of work of the NIC's processor, and the amount of each so far.

use crate::settings::NicInstructions;
use perpacket_cost::named;

named! {
    /// A kind of work.
    pub enum Work {
        Lookup = "lookup",
        HostReceive = "host_receive",
        HostSend = "host_send",
        HostTransmit = "host_transmit",
        TcpReceive = "tcp_receive",
        TcpSend = "tcp_send",
        Command = "command",
        Timer = "timer",
        Message = "message",
        MessageMerge = "message_merge",
        Handoff = "handoff",
        Restore = "restore",
        ConnectionEnd = "connection_end",
        LoadControl = "load_control",
    }
}

impl NicInstructions {
    /// The instructions of one piece of work.
    pub const fn of(&self, work: Work) -> u64 {
        let instructions = match work {
            Work::Lookup => self.lookup,
            Work::HostReceive | Work::HostSend | Work::HostTransmit => self.host_pass,
            Work::TcpReceive | Work::TcpSend => self.tcp_packet,
            Work::Command => self.command,
            Work::Timer => self.timer,
            Work::Message => self.message,
            Work::MessageMerge => self.message_merge,
            Work::Handoff => self.handoff,
            Work::Restore => self.restore,
            Work::ConnectionEnd => self.connection_end,
            Work::LoadControl => self.load_control,
        };
        instructions as u64
    }
}

/// Pieces of work and their instructions, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkCounts([(u64, u64); Work::ALL.len()]);

impl WorkCounts {
    #[inline]
    pub const fn add(&mut self, work: Work, instructions: u64) {
        let (pieces, sum) = &mut self.0[work as usize];
        *pieces += 1;
        *sum += instructions;
    }

    /// The pieces of one kind and their instructions since `before`.
    pub const fn since(&self, before: &Self, work: Work) -> (u64, u64) {
        let ((pieces, sum), (pieces_before, sum_before)) =
            (self.0[work as usize], before.0[work as usize]);
        (pieces - pieces_before, sum - sum_before)
    }
}
