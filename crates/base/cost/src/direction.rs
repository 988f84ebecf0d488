//! The direction of code: whether it works for a packet that leaves or for a packet that arrives.

use crate::named;

named! {
    /// The direction of the packet that code works for.
    ///
    /// The innermost function of the call chain that has a direction determines the direction. An
    /// acknowledgment that the receive path sends is work for a packet sent.
    #[derive(Default)]
    pub enum Direction {
        /// The code works for a packet that leaves the host.
        Send = "send",
        /// The code works for a packet that arrives.
        Receive = "receive",
        /// The code works for no single packet: user code, scheduling, polling.
        #[default]
        Neither = "neither",
    }
}
