//! `load files`.

use perpacket_load::{FileSetReport, FilesSpec, make_files};

use super::failure;
use crate::output::Output;
use crate::status::{Failure, Status};

pub const EXAMPLE: &str = "Examples:
  perpacket-agent load files specweb99 --connections 100 --into /srv/web
  perpacket-agent load files trace --trace access.log --into /srv/web";

pub fn run(spec: FilesSpec, output: &Output) -> Result<Status, Failure> {
    let report = make_files(&spec).map_err(failure)?;
    output.print(&report, table)?;
    Ok(Status::Done)
}

fn table(report: &FileSetReport) -> String {
    let mut text = format!(
        "{}: {} files created, {} bytes; {} existed\n",
        report.into, report.files, report.bytes, report.kept
    );
    if report.left_out > 0 {
        text.push_str(&format!(
            "{} objects cannot be files, such as {}\n",
            report.left_out,
            report.left_out_examples.join(", ")
        ));
    }
    text
}
