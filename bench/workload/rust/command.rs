//! The work as a program: arguments on stdin, result on stdout.
mod count;

use std::io::{Read, Write};

fn main() {
    let mut input = Vec::new();
    let read = std::io::stdin().read_to_end(&mut input);
    match read.ok().and_then(|_| count::count(&input)) {
        Some(out) if std::io::stdout().write_all(out.as_bytes()).is_ok() => {}
        _ => {
            eprintln!("text: required");
            std::process::exit(1);
        }
    }
}
