//! CGI (RFC 3875): one process per request. The benchmark measures the cost of these processes.

use std::io::Read;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::site::Site;

/// Largest output of a program, in bytes.
const PAGE_BYTES: usize = 8 << 20;

/// A request for a program.
#[derive(Clone, Debug)]
pub struct CgiRequest {
    /// The path of the route.
    pub script: &'static str,
    pub query: Vec<u8>,
    /// The client's address.
    pub peer: IpAddr,
}

impl CgiRequest {
    /// Runs the program; `None` if it fails, writes too much, or exceeds the time-out of requests.
    pub fn run(&self, site: &Site) -> Option<Vec<u8>> {
        let program = site.cgi.as_ref()?;
        let root = site.spec.root.as_ref()?;
        let mut child = Command::new(&program.path)
            .args(&program.arguments)
            .env_clear()
            .env("GATEWAY_INTERFACE", "CGI/1.1")
            .env("SERVER_SOFTWARE", "perpacket")
            .env("REQUEST_METHOD", "GET")
            .env("SCRIPT_NAME", self.script)
            .env("QUERY_STRING", std::ffi::OsStr::from_bytes(&self.query))
            .env("REMOTE_ADDR", self.peer.to_string())
            .env("DOCUMENT_ROOT", root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let limit = site.spec.request_timeout.0;
        let page = read_page(&mut child, Instant::now() + limit);
        if page.is_none() {
            // The program may have ended already.
            let _ = child.kill();
        }
        let status = child.wait().ok()?;
        page.filter(|_| status.success())
    }
}

/// Reads the program's output until the program closes it.
fn read_page(child: &mut Child, deadline: Instant) -> Option<Vec<u8>> {
    let mut output = child.stdout.take()?;
    let mut page = Vec::new();
    let mut part = [0; 65_536];
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let left = Timespec::try_from(left).ok()?;
        let mut ready = [PollFd::new(&output, PollFlags::IN)];
        if poll(&mut ready, Some(&left)).ok()? == 0 {
            return None;
        }
        match output.read(&mut part).ok()? {
            0 => return Some(page),
            count if page.len() + count > PAGE_BYTES => return None,
            count => page.extend_from_slice(&part[..count]),
        }
    }
}
