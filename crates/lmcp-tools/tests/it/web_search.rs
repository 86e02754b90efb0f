//! `web_search` against backends of all moods, on loopback.

use std::io::Write;

use crate::site::{Site, call, client, failure, send, text};
use lmcp_tools::{
    Settings,
    settings::{Backend, Secret},
};
use serde_json::{Value, json};

const KEY: &str = "hunter2-key";

/// Settings for a backend at this site.
fn at(site: &Site, backend: Backend) -> Settings {
    let mut settings = Settings::default();
    let search = &mut settings.web.search;
    search.backend = backend;
    search.tavily_key = Some(Secret::new(KEY));
    search.brave_key = Some(Secret::new(KEY));
    match backend {
        Backend::Searxng => search.searxng_url = Some(site.url("/sub/")),
        _ => search.base_url = Some(site.url("/api")),
    }
    settings
}

fn all_arguments() -> Value {
    json!({ "query": "rust & \"c\"", "max_results": 3, "region": "uk-en", "time_range": "week", "safesearch": "strict" })
}

#[tokio::test]
async fn searxng_is_asked_in_its_words_at_a_private_address() {
    let found = json!({ "query": "x", "results": [
        { "title": "One", "url": "https://one.example/", "content": "first  words", "publishedDate": "2026-01-02" },
        { "title": "Script", "url": "javascript:alert(1)", "content": "" },
        { "title": null, "url": "https://two.example/", "content": null },
    ]});
    let site = Site::of("application/json", found.to_string());
    let client = client(at(&site, Backend::Searxng));
    let (result, value) = call(&client, "web_search", all_arguments()).await;
    assert_eq!(
        value,
        json!({ "backend": "searxng", "results": [
            { "title": "One", "url": "https://one.example/", "snippet": "first words", "age": "2026-01-02" },
            { "title": "https://two.example/", "url": "https://two.example/", "snippet": "" },
        ]})
    );
    assert!(text(&result).starts_with(
        "2 results from searxng\n\n1. One (2026-01-02)\nhttps://one.example/\nfirst words"
    ));
    assert_eq!(
        site.asked()[0].line,
        "GET /sub/search?q=rust%20%26%20%22c%22&format=json&safesearch=2&language=en-GB&time_range=week"
    );
}

#[tokio::test]
async fn one_result_that_cannot_be_read_does_not_spoil_the_others() {
    let good = json!({ "title": "One", "url": "https://one.example/" });
    let bad = [json!({ "title": 5, "url": {} }), json!(null), json!("x")];
    for backend in [Backend::Searxng, Backend::Brave, Backend::Tavily] {
        let mut results = bad.to_vec();
        results.push(good.clone());
        let found = json!({ "results": results, "web": { "results": results } });
        let site = Site::of("application/json", found.to_string());
        let asked = json!({ "query": "x" });
        let (_, value) = call(&client(at(&site, backend)), "web_search", asked.clone()).await;
        assert_eq!(value["results"].as_array().unwrap().len(), 1, "{value}");
        assert_eq!(value["results"][0]["url"], "https://one.example/");
        let found = json!({ "results": bad, "web": { "results": bad } });
        let site = Site::of("application/json", found.to_string());
        let text = failure(&client(at(&site, backend)), "web_search", asked).await;
        assert!(text.contains("no result that can be read"), "{text}");
    }
}

#[tokio::test]
async fn the_address_of_searxng_is_not_open_to_fetch() {
    let site = Site::of("application/json", "{}");
    let client = client(at(&site, Backend::Searxng));
    let text = failure(&client, "fetch", json!({ "url": site.url("/") })).await;
    assert!(text.contains("may not reach"), "{text}");
}

#[tokio::test]
async fn brave_is_asked_with_its_key_in_a_header() {
    let found = json!({ "web": { "results": [
        { "title": "A &amp; B", "url": "https://one.example/", "description": "some <strong>rust</strong>", "age": "2 days ago" },
    ]}});
    let site = Site::of("application/json", found.to_string());
    let client = client(at(&site, Backend::Brave));
    let (_, value) = call(&client, "web_search", all_arguments()).await;
    assert_eq!(
        value["results"],
        json!([
            { "title": "A & B", "url": "https://one.example/", "snippet": "some rust", "age": "2 days ago" },
        ])
    );
    let asked = &site.asked()[0];
    assert!(asked.head.contains(&format!("x-subscription-token: {KEY}")));
    assert_eq!(
        asked.line,
        "GET /api?q=rust%20%26%20%22c%22&count=3&safesearch=strict&country=GB&search_lang=en&freshness=pw"
    );
}

#[tokio::test]
async fn tavily_says_what_it_cannot_heed() {
    let found = json!({ "results": [{ "title": "One", "url": "https://one.example/", "content": "words", "score": 0.9 }] });
    let site = Site::of("application/json", found.to_string());
    let client = client(at(&site, Backend::Tavily));
    let (_, value) = call(&client, "web_search", all_arguments()).await;
    assert_eq!(value["ignored"], json!(["region", "safesearch"]));
    assert_eq!(value["results"][0]["snippet"], "words");
    let asked = &site.asked()[0];
    assert_eq!(asked.line, "POST /api");
    assert!(asked.head.contains(&format!("authorization: bearer {KEY}")));
    let body: Value = serde_json::from_str(&asked.body).unwrap();
    assert_eq!(
        body,
        json!({ "query": "rust & \"c\"", "max_results": 3, "time_range": "week" })
    );
}

#[tokio::test]
async fn duckduckgo_is_asked_without_a_key() {
    let page: String = (0..30)
        .map(|n| format!(r#"<a class="result__a" href="//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.example%2F{n}">T{n}</a>"#))
        .collect();
    let site = Site::of("text/html", page);
    let client = client(at(&site, Backend::DuckDuckGo));
    let (_, value) = call(&client, "web_search", all_arguments()).await;
    let urls: Vec<_> = value["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["url"].clone())
        .collect();
    assert_eq!(
        urls,
        [
            "https://a.example/0",
            "https://a.example/1",
            "https://a.example/2"
        ]
    );
    assert_eq!(
        site.asked()[0].line,
        "GET /api?q=rust%20%26%20%22c%22&kl=uk-en&kp=1&df=w"
    );
    let (_, value) = call(&client, "web_search", json!({ "query": "x" })).await;
    assert_eq!(value["results"].as_array().unwrap().len(), 8);
    assert_eq!(site.asked()[1].line, "GET /api?q=x&kl=wt-wt&kp=-1");
}

#[tokio::test]
async fn a_bot_check_is_told_as_one() {
    for site in [
        Site::with(
            "202 Accepted",
            &[("Content-Type", "text/html")],
            "<html></html>",
        ),
        Site::of(
            "text/html",
            r#"<div class="anomaly-modal__title">Unfortunately, bots use DuckDuckGo too.</div>"#,
        ),
    ] {
        let text = failure(
            &client(at(&site, Backend::DuckDuckGo)),
            "web_search",
            json!({ "query": "x" }),
        )
        .await;
        assert!(
            text.contains("duckduckgo") && text.contains("bot check"),
            "{text}"
        );
    }
    let site = Site::of(
        "text/html",
        "<html><body>Welcome to the router</body></html>",
    );
    let text = failure(
        &client(at(&site, Backend::DuckDuckGo)),
        "web_search",
        json!({ "query": "x" }),
    )
    .await;
    assert!(text.contains("without a list of results"), "{text}");
}

#[tokio::test]
async fn nothing_found_is_an_empty_list() {
    for (backend, body) in [
        (
            Backend::DuckDuckGo,
            r#"<div class="no-results">No results.</div>"#,
        ),
        (Backend::Searxng, r#"{"results":[]}"#),
        (Backend::Brave, r#"{"type":"search"}"#),
        (Backend::Tavily, r#"{"results":[]}"#),
    ] {
        let site = Site::of("application/json", body);
        let (result, value) = call(
            &client(at(&site, backend)),
            "web_search",
            json!({ "query": "x" }),
        )
        .await;
        assert!(!result.is_error);
        assert_eq!(value["results"], json!([]));
        assert!(text(&result).contains("found nothing"));
    }
}

#[tokio::test]
async fn every_failure_names_the_backend_and_none_the_key() {
    let cases: [(&'static str, &'static str, &str); 6] = [
        ("429 Too Many", "slow down", "asked too often (429)"),
        (
            "401 Unauthorized",
            r#"{"error":"bad key hunter2-key"}"#,
            "refused the request (401)",
        ),
        ("500 Oops", "hunter2-key broke", "status 500: [key] broke"),
        ("200 OK", "<html>not json</html>", "no JSON"),
        ("200 OK", r#"{"results": 1, "web": 2}"#, "no JSON"),
        ("302 Found", "", "redirects (302)"),
    ];
    for backend in [Backend::Brave, Backend::Tavily] {
        for (status, body, words) in cases {
            let site = Site::with(
                status,
                &[
                    ("Content-Type", "text/plain"),
                    ("Location", "http://elsewhere.example/"),
                ],
                body,
            );
            let text = failure(
                &client(at(&site, backend)),
                "web_search",
                json!({ "query": "x" }),
            )
            .await;
            assert!(
                text.contains(&format!("the search backend {backend} ")),
                "{text}"
            );
            assert!(text.contains(words), "{status} {body}: {text}");
            assert!(!text.contains(KEY), "{text}");
        }
    }
}

#[tokio::test]
async fn who_is_offline_is_not_told_to_check_a_name_that_no_model_chose() {
    let mut settings = Settings::default();
    settings.web.search.backend = Backend::Searxng;
    settings.web.search.searxng_url = Some("http://nowhere.invalid/".into());
    let said = failure(&client(settings), "web_search", json!({ "query": "x" })).await;
    for words in [
        "the search backend searxng could not be asked",
        "`nowhere.invalid` (DNS)",
        "hint: this machine may be offline; if it is not, the operator must check the address",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(!said.contains("check the host name"), "{said}");
}

#[tokio::test]
async fn a_key_that_comes_back_in_a_result_is_taken_out() {
    let site = Site::new(|_, stream| {
        let body = format!(
            r#"{{"results":[{{"url":"https://a.example/?k={KEY}","title":"{KEY}","content":"{KEY}{KEY}"}}]}}"#
        );
        send(stream, "200 OK", &[], body.as_bytes());
    });
    let (result, value) = call(
        &client(at(&site, Backend::Tavily)),
        "web_search",
        json!({ "query": "x" }),
    )
    .await;
    assert!(!value.to_string().contains(KEY) && !text(&result).contains(KEY));
    assert_eq!(value["results"][0]["snippet"], "[key][key]");
}

#[tokio::test]
async fn a_backend_without_its_key_or_address_fails_and_no_other_is_asked() {
    for (backend, words) in [
        (Backend::Brave, "LMCP_BRAVE_KEY"),
        (Backend::Tavily, "LMCP_TAVILY_KEY"),
        (Backend::Searxng, "LMCP_SEARXNG_URL"),
    ] {
        let mut settings = Settings::default();
        settings.web.search.backend = backend;
        let text = failure(&client(settings), "web_search", json!({ "query": "x" })).await;
        assert!(
            text.contains(words) && text.contains(&backend.to_string()),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_searxng_instance_without_json_says_what_to_change() {
    let site = Site::with("403 Forbidden", &[], "");
    let text = failure(
        &client(at(&site, Backend::Searxng)),
        "web_search",
        json!({ "query": "x" }),
    )
    .await;
    assert!(text.contains("search.formats"), "{text}");
}

#[tokio::test]
async fn an_answer_without_end_is_refused() {
    let site = Site::new(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n[");
        while stream.write_all(&[b' '; 4096]).is_ok() {}
    });
    let text = failure(
        &client(at(&site, Backend::Brave)),
        "web_search",
        json!({ "query": "x" }),
    )
    .await;
    assert!(text.contains("brave sent more"), "{text}");
}

#[tokio::test]
async fn arguments_are_checked() {
    let site = Site::of("text/html", "");
    let client = client(at(&site, Backend::DuckDuckGo));
    for arguments in [
        json!({}),
        json!({ "query": "" }),
        json!({ "query": "  " }),
        json!({ "query": "x", "max_results": -1 }),
        json!({ "query": "x", "max_results": 26 }),
        json!({ "query": "x", "region": "Germany" }),
        json!({ "query": "x", "time_range": "decade" }),
        json!({ "query": "x", "safesearch": "on" }),
        json!({ "query": "x", "engine": "y" }),
    ] {
        let refused = match client.call_tool("web_search", arguments.clone()).await {
            Ok(result) => result.is_error,
            Err(_) => true,
        };
        assert!(refused, "{arguments}");
    }
    assert!(site.asked().is_empty());
}
