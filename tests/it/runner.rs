//! Finds the files, plays each over one transport, and reports or rewrites.

use std::{cell::Cell, fs, path::PathBuf, time::Duration};

use tokio::time::timeout;

use crate::{
    play::{self, Seen, Strictness},
    print,
    transcript::{Act, Transcript, Transport},
};

/// Plays every file that is meant for this transport. Panics with all that went wrong.
pub(crate) async fn play_all(transport: Transport) {
    let (mut played, mut failures) = (0, Vec::new());
    for path in files() {
        let text = fs::read_to_string(&path).expect("a file that was listed can be read");
        let result = match Transcript::parse(&text) {
            Ok(transcript) if is_wanted(&transcript, transport) => {
                played += 1;
                play_file(&transcript, transport, &path, &text).await
            }
            Ok(_) => Ok(()),
            Err(err) => Err(err),
        };
        if let Err(err) = result {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            failures.push(format!("{name}, {err}"));
        }
    }
    let name = transport.name();
    assert!(
        played > 0 || is_update() || std::env::var_os("ONLY").is_some(),
        "no transcript was played over {name}"
    );
    assert!(
        failures.is_empty(),
        "{} of {played} transcripts failed over {name}\n\n{}\n",
        failures.len(),
        failures.join("\n\n"),
    );
}

async fn play_file(
    transcript: &Transcript,
    transport: Transport,
    path: &PathBuf,
    text: &str,
) -> Result<(), String> {
    let strictness = if is_update() {
        Strictness::Accept
    } else {
        Strictness::Check
    };
    let line = Cell::new(1);
    let playing = play::play(transcript, transport, strictness, &line);
    let seen = match timeout(PATIENCE, playing).await {
        Ok(result) => result,
        Err(_) => Err(format!("nothing happened for {} s", PATIENCE.as_secs())),
    };
    let seen = seen.map_err(|err| format!("line {}: {err}", line.get()))?;
    if is_update() {
        // Moved into place, because the other tests read the files meanwhile.
        let new = path.with_extension("new");
        fs::write(&new, updated(transcript, text, &seen))
            .and_then(|()| fs::rename(&new, path))
            .map_err(|err| format!("cannot update: {err}"))?;
    }
    Ok(())
}

/// An update plays each file once, over the first transport it is meant for.
fn is_wanted(transcript: &Transcript, transport: Transport) -> bool {
    if is_update() {
        transcript.only.first() == Some(&transport)
    } else {
        transcript.only.contains(&transport)
    }
}

pub(crate) fn is_update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// The transcripts, in the order of their names.
fn files() -> Vec<PathBuf> {
    let only = std::env::var("ONLY").unwrap_or_default();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/transcripts");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the folder of transcripts is part of the sources")
        .map(|entry| entry.expect("an entry of a folder can be read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "txt"))
        .filter(|path| {
            path.file_stem()
                .is_some_and(|name| name.to_string_lossy().contains(&only))
        })
        .collect();
    files.sort();
    files
}

/// The file with its expected messages replaced by those that came.
fn updated(transcript: &Transcript, text: &str, seen: &Seen) -> String {
    let mut lines: Vec<Option<String>> = text.lines().map(|line| Some(line.into())).collect();
    let expected = transcript
        .steps
        .iter()
        .filter(|step| matches!(step.act, Act::Expect(_)));
    for (step, message) in expected.zip(seen) {
        lines[step.lines.clone()].fill(None);
        lines[step.lines.start] = Some(print::entry(message));
    }
    let lines: Vec<_> = lines.into_iter().flatten().collect();
    lines.join("\n") + "\n"
}

/// Only to stop a hang; no result depends on it.
const PATIENCE: Duration = Duration::from_secs(30);
