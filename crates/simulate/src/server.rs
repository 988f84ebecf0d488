//! The web server: an event loop that accepts, reads, finds the file, writes the header by copy,
//! sends the file without a copy, keeps connections alive, and closes when the client does.

use perpacket_workload::PlannedRequest;

use crate::connection::{Buffer, Owner};
use crate::host::footprint::Operation;
use crate::kernel::UserJob;
use crate::selection::Future;
use crate::world::{CommandKind, World};

impl World {
    /// The server's process runs one job.
    pub fn run_user(&mut self, job: UserJob) {
        match job {
            UserJob::Ready(number) => {
                self.poll();
                self.serve(number);
                self.release(number);
            }
            UserJob::Write => self.bulk_write(),
        }
    }

    /// One call for as many ready connections as there are, up to a limit.
    fn poll(&mut self) {
        if self.host.polled == 0 {
            self.host.cpu.run(Operation::Poll);
            let waiting = 1 + self.host.user.len() as u32;
            self.host.polled = waiting.min(self.settings.server.events_per_poll);
        }
        self.host.polled -= 1;
    }

    fn serve(&mut self, number: u32) {
        let connection = &mut self.connections[number];
        let cpu = &mut self.host.cpu;
        cpu.at_connection(&connection.places);
        cpu.run(Operation::PollEvent);
        connection.serving.ready = false;
        if !connection.serving.accepted {
            connection.serving.accepted = true;
            cpu.run(Operation::Accept);
            cpu.run(Operation::UserConnection);
            if self.bulk.is_some() {
                return self.bulk_accepted(number);
            }
        }
        if self.connections[number].serving.unread_bytes >= self.settings.server.request_bytes {
            self.read_request(number);
        }
        self.respond(number);
        let serving = &self.connections[number].serving;
        if serving.peer_finished && !serving.closed && serving.file_bytes_left == 0 {
            self.close(number);
        }
    }

    /// The request the connection's client is asking.
    fn request(&self, number: u32) -> Option<PlannedRequest> {
        let client = &self.clients.slots[self.connections[number].slot as usize];
        client.requests.get(client.next).copied()
    }

    /// What the connection's whole session will do.
    pub fn future(&self, number: u32) -> Future {
        let page = self.settings.server.sendfile_enqueue_bytes;
        let client = &self.clients.slots[self.connections[number].slot as usize];
        let of = |request: &PlannedRequest| 1 + request.response_bytes.div_ceil(page);
        Future {
            enqueues: client.requests.iter().map(of).sum(),
            requests: client.requests.len() as u32,
        }
    }

    fn read_request(&mut self, number: u32) {
        let Some(request) = self.request(number) else {
            return;
        };
        let connection = &mut self.connections[number];
        connection.serving.unread_bytes = 0;
        connection.serving.header_due = true;
        connection.serving.file_bytes_left = request.response_bytes;
        let cpu = &mut self.host.cpu;
        cpu.at_received(connection.request_buffer);
        cpu.run(Operation::Read);
        cpu.at_object(request.object);
        cpu.run(Operation::UserRequest);
        if request.dynamic {
            cpu.run(Operation::UserDynamic);
            cpu.run(Operation::DynamicCalls);
        }
    }

    /// Writes the header if it is due and as much of the file as the send buffer has room for.
    fn respond(&mut self, number: u32) {
        if self.connections[number].serving.header_due {
            self.connections[number].serving.header_due = false;
            let more = self.connections[number].serving.file_bytes_left > 0;
            let bytes = self.settings.server.header_bytes;
            self.enqueue(number, Operation::WriteHeader, bytes, more);
        }
        let mut room = self.send_room(number);
        let mut left = self.connections[number].serving.file_bytes_left;
        if left == 0 || room == 0 {
            return;
        }
        if let Some(request) = self.request(number) {
            self.host.cpu.at_object(request.object);
        }
        self.host.cpu.run(Operation::Sendfile);
        while left > 0 && room > 0 {
            let bytes = left
                .min(room)
                .min(self.settings.server.sendfile_enqueue_bytes);
            left -= bytes;
            room -= bytes;
            self.connections[number].serving.file_bytes_left = left;
            self.enqueue(number, Operation::SendfilePage, bytes, left > 0);
        }
    }

    /// Puts bytes on the connection's send buffer and lets TCP, or the NIC, have them.
    pub fn enqueue(&mut self, number: u32, operation: Operation, bytes: u32, more_to_come: bool) {
        let cpu = &mut self.host.cpu;
        let mbuf = cpu.allocate_mbuf();
        cpu.run(operation);
        let connection = &mut self.connections[number];
        connection.buffers.push_back(Buffer {
            mbuf,
            bytes_left: bytes,
            is_page: operation == Operation::SendfilePage,
        });
        connection.serving.enqueues += 1;
        if !connection.serving.handoff_attempted && self.settings.nic.connections > 0 {
            let enqueues = connection.serving.enqueues;
            let room = self.room_share();
            if self.host.selection.at_send(enqueues, room) {
                self.try_handoff(number);
            }
        }
        let connection = &mut self.connections[number];
        if connection.owner == Owner::Host {
            connection.server.enqueue(bytes, more_to_come);
            self.transmit(number);
        } else {
            connection.bypass_queued_bytes += bytes;
            connection.bytes_in_commands += bytes;
            let kind = CommandKind::Send {
                bytes,
                more_to_come,
            };
            self.send_command(number, kind);
        }
    }

    fn close(&mut self, number: u32) {
        self.connections[number].serving.closed = true;
        self.host.cpu.run(Operation::Close);
        if self.connections[number].owner == Owner::Host {
            self.host.cpu.run(Operation::TcpClose);
            self.connections[number].server.close();
            self.transmit(number);
        } else {
            self.send_command(number, CommandKind::Close);
        }
    }
}
