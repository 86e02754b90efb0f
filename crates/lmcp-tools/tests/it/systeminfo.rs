//! `systeminfo` on the host that runs the tests.

use std::{fs, net::Ipv6Addr};

use lmcp_core::{Client, Server};
use lmcp_tools::{HostTools, Settings};
use serde_json::{Value, json};

fn client() -> Client {
    let tools = HostTools::new(Settings::default()).unwrap();
    tools
        .add_to(Server::new("t", "0"))
        .start()
        .unwrap()
        .client()
}

async fn look(arguments: Value) -> (Value, String) {
    let result = client().call_tool("systeminfo", arguments).await.unwrap();
    assert!(!result.is_error);
    let text = result.content[0].as_text().unwrap().to_owned();
    (result.structured_content.unwrap(), text)
}

const ALL: [&str; 9] = [
    "os",
    "cpu",
    "memory",
    "cgroup",
    "pressure",
    "disks",
    "network",
    "container",
    "processes",
];

#[tokio::test]
async fn what_is_seen_fits_the_schema_that_is_advertised() {
    let tools = client().request("tools/list", json!({})).await.unwrap();
    let tools = tools["tools"].as_array().unwrap();
    let tool = tools
        .iter()
        .find(|tool| tool["name"] == "systeminfo")
        .unwrap();
    let schema = lmcp_schema::Schema::compile(&tool["outputSchema"]).unwrap();
    for arguments in [
        json!({}),
        json!({ "sections": ALL }),
        json!({ "sections": ["os"] }),
    ] {
        let (info, _) = look(arguments).await;
        assert!(schema.is_valid(&info), "{:?}", schema.validate(&info));
    }
}

#[tokio::test]
async fn every_section_is_there_or_says_why_not() {
    let (info, _) = look(json!({ "sections": ALL })).await;
    for section in ALL {
        let reason = &info["unavailable"][section];
        assert_ne!(
            info[section].is_null(),
            reason.is_null(),
            "{section}: {reason}"
        );
    }
    assert!(
        info["memory"]["total_bytes"].as_u64().unwrap()
            > info["memory"]["available_bytes"].as_u64().unwrap()
    );
    assert!(info["cpu"]["logical_cores"].as_u64().unwrap() > 0);
    assert!(info["processes"]["count"].as_u64().unwrap() > 0);
    assert!(info["os"]["uptime_seconds"].is_u64());
}

#[tokio::test]
async fn only_what_is_asked_for_is_looked_at() {
    let (info, text) = look(json!({ "sections": ["memory"] })).await;
    for section in ALL {
        assert_eq!(info[section].is_null(), section != "memory", "{section}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
    let (usual, text) = look(json!({})).await;
    assert!(usual["processes"].is_null() && !usual["os"].is_null());
    assert!(
        text.starts_with(usual["os"]["hostname"].as_str().unwrap()),
        "{text}"
    );
}

#[tokio::test]
async fn the_loopback_interface_has_its_address() {
    let (info, _) = look(json!({ "sections": ["network"] })).await;
    let interfaces = info["network"]["interfaces"].as_array().unwrap();
    let lo = interfaces
        .iter()
        .find(|interface| interface["name"] == "lo")
        .unwrap();
    if info["network"]["addresses_problem"].is_null() && lo["up"] == true {
        assert_eq!(lo["ipv4"][0], "127.0.0.1/8");
    }
}

#[tokio::test]
async fn interfaces_have_the_addresses_that_the_kernel_tells_elsewhere() {
    // One address in a line: itself, the number of its interface, the length of its prefix in hexadecimal, two more, a name.
    let told = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let mut told: Vec<_> = told
        .lines()
        .map(|line| {
            let parts: Vec<_> = line.split_whitespace().collect();
            let address = u128::from_str_radix(parts[0], 16).unwrap();
            let length = u32::from_str_radix(parts[2], 16).unwrap();
            let address = Ipv6Addr::from_bits(address);
            (parts[5].to_owned(), format!("{address}/{length}"))
        })
        .collect();
    let (info, _) = look(json!({ "sections": ["network"] })).await;
    let mut seen: Vec<(String, String)> = Vec::new();
    for interface in info["network"]["interfaces"].as_array().unwrap() {
        for address in interface["ipv6"].as_array().unwrap() {
            let words = [&interface["name"], address].map(|word| word.as_str().unwrap().to_owned());
            seen.push(words.into());
        }
    }
    // A host of many containers has more interfaces than are shown.
    let left_out = &info["network"]["interfaces_left_out"];
    if info["network"]["addresses_problem"].is_null() && left_out == 0 {
        told.sort();
        seen.sort();
        assert_eq!(seen, told);
    }
}

#[tokio::test]
async fn command_lines_are_not_shown() {
    let (info, text) = look(json!({ "sections": ["processes"] })).await;
    let arguments: Vec<_> = std::env::args().collect();
    for argument in arguments.iter().filter(|argument| argument.contains('/')) {
        assert!(!info.to_string().contains(argument) && !text.contains(argument));
    }
}

#[tokio::test]
async fn an_unknown_section_is_refused() {
    let result = client()
        .call_tool("systeminfo", json!({ "sections": ["weather"] }))
        .await
        .unwrap();
    assert!(result.is_error);
}
