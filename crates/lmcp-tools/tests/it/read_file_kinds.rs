//! `read_file`: what is no text comes as a picture or not at all.

use std::{fs, os::unix::net::UnixListener, path::Path};

use lmcp_tools::Settings;
use serde_json::json;

use crate::{
    picture::png,
    read_file::{Bench, client, text},
};

#[tokio::test]
async fn binary_files_are_refused_with_what_they_are() {
    let bench = Bench::new();
    bench
        .file("elf", b"\x7fELF\x02\x01\x01")
        .file("zeros", "a\0b")
        .file("pdf", "%PDF-1.4\n");
    assert!(
        bench
            .refused(json!({ "path": "elf" }))
            .await
            .contains("an ELF program or library, 7 bytes")
    );
    assert!(
        bench
            .refused(json!({ "path": "zeros" }))
            .await
            .contains("binary data, 3 bytes")
    );
    let pdf = bench.refused(json!({ "path": "pdf" })).await;
    assert!(
        pdf.contains("a PDF document") && pdf.contains("hint: the command `pdftotext "),
        "{pdf}"
    );
    bench.file("hole", [0; 9000]);
    assert!(
        bench
            .refused(json!({ "path": "hole" }))
            .await
            .contains("nothing but zeros")
    );
}

#[tokio::test]
async fn images_come_as_images_up_to_a_size() {
    let bench = Bench::new();
    for bytes in [100, 3_932_160] {
        bench.file("a.png", png(8000, 1, bytes));
        let result = bench.call(json!({ "path": "a.png" })).await;
        let image = serde_json::to_value(&result.content[1]).unwrap();
        assert_eq!(
            (&image["type"], &image["mimeType"]),
            (&json!("image"), &json!("image/png"))
        );
        assert_eq!(image["data"].as_str().unwrap().len(), bytes.div_ceil(3) * 4);
        let value = result.structured_content.unwrap();
        assert_eq!(value["files"][0]["mime_type"], "image/png");
    }
    bench.file("big.png", png(10, 20, 5 * 1024 * 1024));
    let refused = bench.refused(json!({ "path": "big.png" })).await;
    assert!(
        refused.contains("(image/png, 5242880 bytes, 10x20 pixels)"),
        "{refused}"
    );
}

#[tokio::test]
async fn what_no_client_can_show_does_not_come_as_an_image() {
    let bench = Bench::new();
    for (bytes, words) in [
        (&png(1, 1, 100)[..20], "image/png, 20 bytes"),
        (&png(1, 1, 100)[..90], "image/png, 90 bytes, 1x1 pixels"),
        (&png(20_000, 20_000, 100), "20000x20000 pixels"),
        (&png(0, 1, 100), "0x1 pixels"),
        (b"GIF89a\0\0", "image/gif, 8 bytes"),
        (b"\xff\xd8\xff\xe0 words", "image/jpeg, 10 bytes"),
        (b"RIFF\x09\0\0\0WEBPVP8 ", "image/webp, 16 bytes"),
    ] {
        bench.file("a", bytes);
        let refused = bench.refused(json!({ "path": "a" })).await;
        assert!(refused.contains(words), "{words}: {refused}");
    }
    bench.file("a.txt", "GIF89a is a format\n");
    let read = bench.read(json!({ "path": "a.txt" })).await;
    assert_eq!(read["content"], "GIF89a is a format\n");
}

#[tokio::test]
async fn what_is_no_file_is_refused_without_waiting() {
    let bench = Bench::new();
    rustix_mkfifo(&bench.path("fifo"));
    let _socket = UnixListener::bind(bench.path("socket")).unwrap();
    fs::create_dir(bench.path("folder")).unwrap();
    assert!(
        bench
            .refused(json!({ "path": "fifo" }))
            .await
            .contains("is a FIFO")
    );
    assert!(
        bench
            .refused(json!({ "path": "socket" }))
            .await
            .contains("is a socket")
    );
    assert!(
        bench
            .refused(json!({ "path": "folder" }))
            .await
            .contains("is a folder")
    );
    assert!(
        bench
            .refused(json!({ "path": "none" }))
            .await
            .contains("does not exist")
    );
    let free = client(Settings::default());
    let result = free
        .call_tool("read_file", json!({ "path": "/dev/null" }))
        .await
        .unwrap();
    assert!(result.is_error && text(&result).contains("is a device"));
}

#[tokio::test]
async fn files_that_the_kernel_makes_up_are_read() {
    let free = client(Settings::default());
    let result = free
        .call_tool("read_file", json!({ "path": "/proc/self/status" }))
        .await
        .unwrap();
    let file = result.structured_content.unwrap()["files"][0].clone();
    assert!(file["content"].as_str().unwrap().starts_with("Name:"));
    assert_eq!(file["size_bytes"], file["byte_end"]);
}

fn rustix_mkfifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

#[tokio::test]
async fn a_picture_that_is_too_large_is_shown_smaller_and_says_so() {
    use std::io::Write as _;
    let bench = Bench::new();
    // Ten rows of 9000 grey pixels.
    let rows = [&[0_u8][..], &[200; 9000]].concat().repeat(10);
    let mut pixels = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    pixels.write_all(&rows).unwrap();
    let pixels = pixels.finish().unwrap();
    let mut file =
        b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x23\x28\0\0\0\x0a\x08\0\0\0\0CRC.".to_vec();
    file.extend(u32::try_from(pixels.len()).unwrap().to_be_bytes());
    file.extend([b"IDAT", pixels.as_slice(), b"CRC.\0\0\0\0IENDCRC."].concat());
    bench.file("wide.png", &file);
    let result = bench.call(json!({ "path": "wide.png" })).await;
    let image = serde_json::to_value(&result.content[1]).unwrap();
    assert_eq!(image["mimeType"], "image/png");
    assert!(
        text(&result).contains("9000x10 pixels, shown as 1500x2"),
        "{}",
        text(&result)
    );
    bench.file("cut.png", &file[..file.len() - 30]);
    let refused = bench.refused(json!({ "path": "cut.png" })).await;
    assert!(refused.contains("too large"), "{refused}");
}
