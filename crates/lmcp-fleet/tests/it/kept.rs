//! What a host keeps of a command: never its input, and nothing that others may read.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::json;

use crate::support::{Far, all};

/// Returns all files of the home of a host that are not FIFOs.
fn files(far: &Far) -> Vec<PathBuf> {
    fn below(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => below(&entry.path(), files),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    let mut files = Vec::new();
    below(far.home.path(), &mut files);
    files
}

/// Returns the files in which a text stands.
fn holding(far: &Far, text: &str) -> Vec<PathBuf> {
    let mut files = files(far);
    files.retain(|file| {
        let bytes = fs::read(file).unwrap_or_default();
        String::from_utf8_lossy(&bytes).contains(text)
    });
    files
}

#[tokio::test]
async fn the_input_of_a_command_is_in_no_file_with_a_name() {
    for far in all() {
        for length in [0, 200_000] {
            let stdin = format!("sesame\n{}\n", "x".repeat(length));
            // It looks for its own input, and writes so much that its output is kept.
            let looking = "read -r word; find \"$HOME/.local\" -type f -exec grep -lF -e \"$word\" {} +; wc -c; \
                i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done";
            let ran = far
                .value("shell", json!({ "command": looking, "stdin": stdin }))
                .await;
            assert_eq!(ran["truncated"], true, "{}", far.name);
            let shown = ran["stdout"].as_str().unwrap().trim_start();
            let expected = format!("{}\nline 0\n", length + 1);
            assert!(shown.starts_with(&expected), "{}: {shown:.300}", far.name);
            assert_eq!(
                holding(&far, "sesame"),
                Vec::<PathBuf>::new(),
                "{}",
                far.name
            );
        }
        let job = json!({ "command": "read -r word; echo got; read -r word" });
        let started = far.value("shell_bg", job).await;
        let typed = json!({ "id": started["id"], "text": "sesame\n", "wait_for": "got" });
        far.value("job_input", typed).await;
        assert_eq!(
            holding(&far, "sesame"),
            Vec::<PathBuf>::new(),
            "{}",
            far.name
        );
        far.value("job_stop", json!({ "id": started["id"] })).await;
    }
}

#[tokio::test]
async fn what_is_kept_of_a_command_is_for_its_owner_alone_and_its_umask_is_its_own() {
    let umask = Command::new("sh").args(["-c", "umask"]).output().unwrap();
    let umask = String::from_utf8(umask.stdout).unwrap();
    for far in all() {
        for stdin in ["", "x", &"x".repeat(200_000)] {
            let long = "umask; i=0; while [ $i -lt 9000 ]; do echo line $i; i=$((i+1)); done";
            let ran = far
                .value("shell", json!({ "command": long, "stdin": stdin }))
                .await;
            let shown = ran["stdout"].as_str().unwrap();
            assert!(shown.starts_with(&umask), "{}: {shown:.300}", far.name);
        }
        let job = json!({ "command": "umask" });
        let started = far.value("shell_bg", job).await;
        let read = json!({ "id": started["id"], "offset": 0, "wait_exit": true });
        let read = far.value("job_output", read).await;
        assert_eq!(read["output"], umask, "{}", far.name);
        let kept = files(&far);
        assert!(kept.len() > 10, "{}: {kept:?}", far.name);
        for file in kept {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}: {}", far.name, file.display());
        }
    }
}
