//! Commands where nothing can be recorded: a real file system that is full.

use std::{fs, io::Write as _, path::Path, process::Command};

use lmcp_core::Handle;
use lmcp_wire::CallToolResult;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{settings, skipped, start, text};

/// A file system of its own, as large as it is told to be.
struct Disk(TempDir);

impl Disk {
    /// None where this user may not mount anything.
    fn new(options: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(dir.path());
        if mount.output().is_ok_and(|done| done.status.success()) {
            return Some(Self(dir));
        }
        skipped("a file system can only be mounted by root");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Leaves no room for a byte.
    fn fill(&self) {
        let mut file = fs::File::create(self.path().join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    /// Leaves no room for another file or folder.
    fn fill_with_files(&self) {
        let mut names = 0..;
        while fs::File::create(self.path().join(names.next().unwrap().to_string())).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

async fn shell(server: &Handle, args: Value) -> (CallToolResult, Value) {
    let result = server.client().call_tool("shell", args).await.unwrap();
    let ran = result.structured_content.clone();
    let ran = ran.unwrap_or_else(|| panic!("{}", text(&result)));
    (result, ran)
}

async fn answers_as_ever(server: &Handle) {
    let args = json!({"command": "cat; echo err >&2; exit 3", "stdin": "given\n"});
    let (result, ran) = shell(server, args).await;
    assert_eq!(
        (&ran["exit_code"], &ran["stdout"], &ran["stderr"]),
        (&json!(3), &json!("given\n"), &json!("err\n"))
    );
    assert!(
        ran["not_recorded"].is_string() && ran["truncated"] == false,
        "{ran}"
    );
    let said = text(&result);
    assert!(
        !result.is_error
            && said.starts_with("exit code 3")
            && said.contains("the output could not be recorded"),
        "{said}"
    );
}

async fn shows_both_ends(server: &Handle) {
    let args = json!({"command": "seq 1 300000; echo end >&2"});
    let (result, ran) = shell(server, args).await;
    let stdout = ran["stdout"].as_str().unwrap();
    assert!(
        stdout.starts_with("1\n2\n") && stdout.ends_with("\n299999\n300000\n"),
        "{stdout}"
    );
    assert!(!stdout.contains('\0'));
    assert_eq!(ran["stderr"], "end\n");
    let shown = stdout.lines().filter(|line| !line.starts_with('['));
    let shown: usize = shown.map(|line| line.len() + 1).sum();
    assert_eq!(ran["omitted_bytes"], 1_988_895 - shown);
    assert!(
        ran["exit_code"] == 0 && ran.get("output").is_none(),
        "{ran}"
    );
    assert!(text(&result).contains("which could not be recorded"));
}

#[tokio::test]
async fn output_is_there_however_full_the_disk_is() {
    let Some(disk) = Disk::new("size=256k") else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let open = settings(disk.path());
    let mut confined = open.clone();
    confined.roots = vec![root.path().to_owned()];
    let servers = [start(open), start(confined)];
    disk.fill();
    for server in &servers {
        answers_as_ever(server).await;
        shows_both_ends(server).await;
    }
}

#[tokio::test]
async fn output_is_there_when_the_disk_gets_full_in_the_middle_of_it() {
    if let Some(disk) = Disk::new("size=256k") {
        shows_both_ends(&start(settings(disk.path()))).await;
    }
}

#[tokio::test]
async fn a_command_runs_where_not_even_its_folder_can_be_made() {
    let Some(disk) = Disk::new("size=256k,nr_inodes=16") else {
        return;
    };
    let root = tempfile::tempdir().unwrap();
    let open = settings(disk.path());
    let mut confined = open.clone();
    confined.roots = vec![root.path().to_owned()];
    for server in [start(open), start(confined)] {
        disk.fill_with_files();
        answers_as_ever(&server).await;
        shows_both_ends(&server).await;
        let args = json!({"command": "true"});
        let job = server.client().call_tool("shell_bg", args).await.unwrap();
        assert!(
            job.is_error && text(&job).contains("cannot record"),
            "{}",
            text(&job)
        );
    }
}

#[tokio::test]
async fn a_job_goes_on_when_the_disk_is_full() {
    let Some(disk) = Disk::new("size=256k") else {
        return;
    };
    let server = start(settings(disk.path()));
    let call = async |tool: &str, args: Value| {
        let result = server.client().call_tool(tool, args).await.unwrap();
        result.structured_content.unwrap_or_default()
    };
    let args = json!({"command": "echo early; read line; seq 1 10000; echo late; read line"});
    let id = call("shell_bg", args).await["id"].clone();
    call("job_output", json!({"id": id, "wait_for": "early"})).await;
    disk.fill();
    call("job_input", json!({"id": id, "text": "x\n"})).await;
    let output = call("job_output", json!({"id": id, "wait_for": "late"})).await;
    assert_eq!(output["matched"], "late");
    let shown = output["output"].as_str().unwrap();
    assert!(shown.ends_with("9999\n10000\nlate\n"), "{shown}");
    // It is still full, and how the job ended is recorded all the same.
    call("job_input", json!({"id": id, "text": "x\n"})).await;
    let args = json!({"id": id, "wait_exit": true});
    let ended = server.client().call_tool("job_output", args).await.unwrap();
    assert!(
        text(&ended).contains("could not be recorded"),
        "{}",
        text(&ended)
    );
    let output = ended.structured_content.unwrap();
    assert_eq!(output["exit_code"], 0);
    let shown = output["output"].as_str().unwrap();
    assert!(
        shown.starts_with("early\n1\n2\n") && !shown.contains("late"),
        "{shown}"
    );
}
