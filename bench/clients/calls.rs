//! The parts that both programs share: the start signal, the number of calls, the check of an answer.
//!
//! The driver looks at the process while it waits for a line: before the calls, and after them.

use std::{error::Error, io::BufRead as _};

pub type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// `CALLS AT_ONCE http URL` or `CALLS AT_ONCE stdio PROGRAM ARGUMENT…`
pub struct Work {
    pub calls: usize,
    pub at_once: usize,
    pub is_http: bool,
    pub target: String,
    pub arguments: Vec<String>,
}

impl Work {
    pub fn read() -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let mut word = || words.next().ok_or("a word is missing");
        Ok(Self {
            calls: word()?.parse()?,
            at_once: word()?.parse()?,
            is_http: word()? == "http",
            target: word()?,
            arguments: words.collect(),
        })
    }

    /// The numbers of the calls that the caller with this number makes.
    pub fn share(&self, caller: usize) -> impl Iterator<Item = usize> + use<> {
        (caller..self.calls).step_by(self.at_once)
    }
}

/// Nobody can know the text without having been asked.
pub fn text(number: usize) -> String {
    format!("call number {number}, and some more words to carry")
}

/// Says where it stands, and waits for the driver to have looked.
pub fn stop(at: &str) -> Result {
    println!("{at}");
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}
