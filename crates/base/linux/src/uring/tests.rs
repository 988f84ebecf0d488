//! Tests of the ring with sockets of this process.

use super::*;
use perpacket_requirements::skip;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Maximum number of waits of [`WAIT`]. It is far more than a test needs.
const WAITS: usize = 600;
const WAIT: Duration = Duration::from_secs(1);

/// Bytes in memory.
#[derive(Debug)]
struct Bytes(Vec<Vec<u8>>);

impl Outgoing for Bytes {
    fn next_file_part(&self) -> Option<(Arc<OwnedFd>, u64, u64)> {
        None
    }

    fn with_slices<'a, T>(&'a self, action: impl FnOnce(&[IoSlice<'a>]) -> T) -> T {
        let slices: Vec<_> = self.0.iter().map(|bytes| IoSlice::new(bytes)).collect();
        action(&slices)
    }
}

/// A ring; `None` if the kernel refuses one.
fn ring() -> Option<Ring<Bytes>> {
    Ring::new()
        .inspect_err(|error| skip("io_uring", error))
        .ok()
}

/// The next completion of a read: the bytes or the error, and whether the read stays armed.
fn received(ring: &mut Ring<Bytes>) -> (Result<usize, Option<i32>>, bool) {
    for _ in 0..WAITS {
        match ring.next_completion() {
            Some(Completion::Received(7, result, more)) => {
                return (result.map_err(|error| error.raw_os_error()), more);
            }
            Some(other) => panic!("{other:?}"),
            None => ring.wait(WAIT).unwrap(),
        }
    }
    panic!("nothing came");
}

#[test]
fn a_multishot_receive_stays_armed_until_it_is_stopped() {
    let Some(mut ring) = ring() else { return };
    let (mut client, socket) = UnixStream::pair().unwrap();
    let multishot = ring.receive_always(7, Target::Descriptor(socket.as_fd()));
    for text in ["one", "three"] {
        client.write_all(text.as_bytes()).unwrap();
        assert_eq!(received(&mut ring), (Ok(text.len()), true));
        assert_eq!(ring.received(), text.as_bytes());
    }
    ring.stop(multishot);
    let canceled = Some(libc::ECANCELED);
    assert_eq!(received(&mut ring), (Err(canceled), false));
    client.write_all(b"again").unwrap();
    ring.receive(7, Target::Descriptor(socket.as_fd()));
    assert_eq!(received(&mut ring), (Ok(5), false));
}

#[test]
fn a_message_of_several_pieces_is_sent_whole_and_returned() {
    let Some(mut ring) = ring() else { return };
    let (mut client, socket) = UnixStream::pair().unwrap();
    for pieces in [
        vec![b"one".to_vec()],
        vec![b"one".to_vec(), b"two".to_vec()],
    ] {
        let text = pieces.concat();
        let out = Box::new(Bytes(pieces));
        ring.send(9, Target::Descriptor(socket.as_fd()), out);
        ring.wait(WAIT).unwrap();
        let Some(Completion::Sent(9, _, Ok(sent))) = ring.next_completion() else {
            panic!("nothing was sent");
        };
        assert_eq!(sent, text.len());
        let mut received = vec![0; sent];
        client.read_exact(&mut received).unwrap();
        assert_eq!(received, text);
    }
}

#[test]
fn a_socket_in_a_slot_is_usable_and_closes_when_the_slot_is_released() {
    let Some(mut ring) = ring() else { return };
    let (mut client, socket) = UnixStream::pair().unwrap();
    let Some(registered) = ring.register(socket.as_fd()) else {
        skip("uring_slots", "the kernel is older than 6.15");
        return;
    };
    let slots = ring.slots.len();
    ring.receive(7, Target::Registered(registered));
    client.write_all(b"ask").unwrap();
    assert_eq!(received(&mut ring), (Ok(3), false));
    drop(socket);
    client.set_nonblocking(true).unwrap();
    let error = client.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "still open");
    ring.release(registered);
    ring.flush().unwrap();
    client.set_nonblocking(false).unwrap();
    client.set_read_timeout(Some(WAIT * 600)).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "closed");
    assert!(ring.next_completion().is_none());
    assert_eq!(ring.slots.len(), slots + 1);
}
