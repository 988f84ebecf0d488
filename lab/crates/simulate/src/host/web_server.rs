//! The web server. Its event loop accepts connections, reads requests, finds the file, writes the
//! header by copy and sends the file without a copy. It keeps a connection open until the client
//! closes it.
//!
//! A round of the loop handles all ready connections once, and may need several polls. The server
//! reads a request in one round and responds in the next. So a busy server handles all other ready
//! connections in between, and the data of the connection can leave the caches.

use super::footprint::Operation;
use super::kernel::Kernel;
use crate::connection::{ConnectionId, ConnectionTable};
use crate::context::Context;
use crate::settings;

/// The server's data of a connection.
#[derive(Default)]
struct Exchange {
    is_accepted: bool,
    is_header_due: bool,
    /// Bytes of the file not yet enqueued.
    file_bytes_left: u32,
    is_closed: bool,
}

pub struct WebServer {
    exchanges: ConnectionTable<Exchange>,
    request_bytes: u32,
    header_bytes: u32,
    enqueue_bytes: u32,
    copies_dynamic: bool,
    responds_in_next_round: bool,
}

impl WebServer {
    pub fn new(settings: &settings::Server) -> Self {
        Self {
            exchanges: ConnectionTable::default(),
            request_bytes: settings.request_bytes,
            header_bytes: settings.header_bytes,
            enqueue_bytes: settings.sendfile_enqueue_bytes,
            copies_dynamic: settings.copies_dynamic,
            responds_in_next_round: settings.responds_in_next_round,
        }
    }

    pub fn forget(&mut self, id: ConnectionId) {
        *self.exchanges.entry(id) = Exchange::default();
    }

    /// Continues with a ready connection as far as this round of the event loop goes.
    pub fn serve(&mut self, id: ConnectionId, kernel: &mut Kernel, context: &mut Context) {
        kernel.poll(id);
        let exchange = self.exchanges.entry(id);
        if !exchange.is_accepted {
            exchange.is_accepted = true;
            kernel.accept();
        }
        if kernel.sockets[id].unread_bytes >= self.request_bytes {
            self.read_request(id, kernel, context);
            if self.responds_in_next_round && self.exchanges[id].is_header_due {
                return kernel.make_ready(id, context);
            }
        }
        self.respond(id, kernel, context);
        let exchange = &mut self.exchanges[id];
        let socket = &mut kernel.sockets[id];
        socket.wants_room = exchange.file_bytes_left > 0;
        if socket.peer_finished && !exchange.is_closed && exchange.file_bytes_left == 0 {
            exchange.is_closed = true;
            kernel.close(id, context);
        }
    }

    fn read_request(&mut self, id: ConnectionId, kernel: &mut Kernel, context: &mut Context) {
        let Some(request) = context.content[id].request else {
            return;
        };
        let exchange = &mut self.exchanges[id];
        exchange.is_header_due = true;
        exchange.file_bytes_left = request.response_bytes;
        kernel.read(id, context);
        let cpu = &mut kernel.cpu;
        cpu.at_object(request.object);
        cpu.run(Operation::UserRequest);
        if request.dynamic {
            cpu.run(Operation::UserDynamic);
            cpu.run(Operation::DynamicCalls);
        }
    }

    /// Writes the header if it is due, and as much of the file or the computed page as fits the send
    /// buffer.
    fn respond(&mut self, id: ConnectionId, kernel: &mut Kernel, context: &mut Context) {
        let exchange = &mut self.exchanges[id];
        let mut left = exchange.file_bytes_left;
        let is_header_due = std::mem::take(&mut exchange.is_header_due);
        let Some(request) = context.content[id].request else {
            return;
        };
        kernel.cpu.at_object(request.object);
        if is_header_due {
            kernel.cpu.run(Operation::UserRespond);
            let operation = Operation::WriteHeader;
            kernel.enqueue(id, operation, self.header_bytes, left > 0, context);
        }
        let mut room = kernel.send_room_bytes(id);
        if left == 0 || room == 0 {
            return;
        }
        let operation = if self.copies_dynamic && request.dynamic {
            Operation::WriteCopy
        } else {
            kernel.cpu.run(Operation::Sendfile);
            kernel.cpu.run(Operation::FilePages);
            Operation::SendfilePage
        };
        while left > 0 && room > 0 {
            let bytes = left.min(room).min(self.enqueue_bytes);
            left -= bytes;
            room -= bytes;
            kernel.enqueue(id, operation, bytes, left > 0, context);
        }
        self.exchanges[id].file_bytes_left = left;
    }
}
