use super::{Style, readable, strip, text_of};
use crate::web::url::Url;

const LIMIT: usize = 20_000;

fn base() -> Url {
    Url::parse("http://a.example/b/c").unwrap()
}

fn markdown(html: &str) -> String {
    readable(html, &base(), Style::Markdown, LIMIT).text
}

#[test]
fn what_was_left_open_is_closed_with_its_block() {
    assert_eq!(
        markdown("<p><b>bold <i>both<p>plain</b>"),
        "**bold *both***\n\nplain"
    );
    assert_eq!(
        markdown("<a href=x>link <h2>head</h2></a>after"),
        "[link](http://a.example/b/x)\n\n## head\n\nafter"
    );
    assert_eq!(markdown("</b></li></ul></table></blockquote>text"), "text");
}

#[test]
fn empty_marks_leave_nothing_behind() {
    assert_eq!(markdown("a<b> </b>b <a href=x></a>c<code></code>"), "a b c");
}

#[test]
fn code_with_backticks_gets_more_of_them() {
    assert_eq!(markdown("<code>a`b</code>"), "``a`b``");
    assert_eq!(markdown("<pre>```\nx</pre>"), "````\n```\nx\n````");
}

#[test]
fn a_table_that_lays_out_a_page_is_no_table() {
    let html = "<table><tr><td>menu<td><h2>Head</h2>text<table><tr><th>a<th>b<tr><td>1<td>2</table></table>";
    assert_eq!(
        markdown(html),
        "menu\n\n## Head\n\ntext\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"
    );
    assert_eq!(
        markdown("<table><tr><td>one<tr><td>two</table>"),
        "one\ntwo"
    );
}

#[test]
fn a_page_that_is_all_navigation_is_shown_in_whole() {
    assert_eq!(
        markdown("<nav><a href=/x>the only link</a></nav>"),
        "[the only link](http://a.example/x)"
    );
}

#[test]
fn a_navigation_that_never_ends_does_not_swallow_the_page() {
    let html = format!("<nav>menu<p>{}", "words ".repeat(100));
    assert!(markdown(&html).contains("words words"));
}

#[test]
fn the_only_article_is_taken_and_one_of_several_is_not() {
    let words = "words ".repeat(100);
    let one = format!("<div>around</div><article>{words}</article>");
    assert!(!markdown(&one).contains("around"));
    let two = format!("<div>around</div><article>{words}</article><article>{words}</article>");
    assert!(markdown(&two).contains("around"));
}

#[test]
fn a_small_main_part_is_not_taken_for_the_whole() {
    let html = format!("<main>short</main><div>{}</div>", "words ".repeat(100));
    assert!(markdown(&html).contains("words words"));
}

#[test]
fn characters_that_nobody_sees_are_left_out() {
    assert_eq!(markdown("a\u{200b}b\u{ad}c\u{e0041}d&#x200B;e"), "abcde");
}

#[test]
fn links_follow_the_base_of_the_page() {
    assert_eq!(
        markdown("<base href='/z/'><a href=x>l</a>"),
        "[l](http://a.example/z/x)"
    );
}

#[test]
fn output_is_bounded_whatever_comes_in() {
    let long = format!("<base href='/{}/'>", "p".repeat(5000));
    for html in [
        format!("{long}{}", "<a href=x>l</a> ".repeat(5_000)),
        format!("{long}<table>{}", "<tr><td><a href=x>l</a>".repeat(5_000)),
        format!(
            "{}<pre>{}",
            "<blockquote>".repeat(1000),
            "\n.".repeat(20_000)
        ),
        "<ul><li>".repeat(5_000),
        "<b><i><a href=x>t".repeat(5_000),
        "<table><tr><td>".repeat(5_000),
        format!("<table><tr>{}", "<td>a".repeat(60_000)),
    ] {
        for style in [Style::Markdown, Style::Plain] {
            assert!(readable(&html, &base(), style, LIMIT).text.len() <= LIMIT);
        }
        assert!(strip(&html, LIMIT).0.len() <= LIMIT);
    }
}

#[test]
fn what_runs_is_taken_out_and_the_rest_stays() {
    let html = "<p onclick=x style=y title='a\"b'>1 &lt; 2</p><SCRIPT>if (a < b) {}</script><a href=' JavaScript:x'>l</a>";
    assert_eq!(
        strip(html, LIMIT).0,
        "<p title=\"a&quot;b\">1 &lt; 2</p><a>l</a>"
    );
}

#[test]
fn the_text_of_a_piece_is_one_line() {
    assert_eq!(text_of(" a <b>b</b>\n&amp; c"), "a b & c");
}

proptest::proptest! {
    #[test]
    fn any_soup_of_tags_is_read(pieces in proptest::collection::vec(
        proptest::sample::select(vec![
            "<b>", "</b>", "<a href=x>", "</a>", "<p>", "<ul>", "<li>", "</ul>", "<table>", "<tr>", "<td>", "</table>",
            "<pre>", "</pre>", "<code>", "</code>", "<h1>", "</h1>", "<nav>", "</nav>", "<main>", "</main>", "<br>",
            "<blockquote>", "</blockquote>", "text", " é ", "<article>", "</article>", "<img alt=i src=s>", "<", "&amp",
            "<div hidden>", "</div>", "<title>", "</title>", "<svg/>", "<script>", "</script>", "<!--", "-->", "\n",
        ]), 0..60))
    {
        let html = pieces.concat();
        for style in [Style::Markdown, Style::Plain] {
            let text = readable(&html, &base(), style, 500).text;
            proptest::prop_assert!(text.len() <= 500);
        }
        strip(&html, 500);
    }
}
