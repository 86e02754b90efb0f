//! Tests of the text that pages become, tag by tag.

use super::{Cut, Style, readable, strip, text_of};
use lmcp_outbound::Url;

const LIMIT: usize = 20_000;

fn base() -> Url {
    Url::parse("http://a.example/b/c").unwrap()
}

fn in_time() -> bool {
    false
}

fn markdown(html: &str) -> String {
    readable(html, &base(), Style::Markdown, LIMIT, &in_time).text
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
fn what_nobody_sees_is_not_told() {
    for html in [
        "<div hidden>EVIL</div>",
        "<p hidden>EVIL<p>",
        "<p hidden>EVIL<div>ok</div>",
        "<ul><li hidden>EVIL<ul><li>EVIL</ul>EVIL<li>ok</ul>",
        "<table><tr><td hidden>EVIL<table><tr><td>EVIL</table>EVIL<td>ok</table>",
        "<table><tr hidden><td>EVIL<td>EVIL<tr><td>ok</table>",
        "<dl><dt hidden>EVIL<dd>ok</dl>",
        "<b aria-hidden=TRUE>EVIL</b>",
        "<label aria-hidden='true'>EVIL <i>EVIL</i></label>",
        "<em style='color:red; DISPLAY : none'>EVIL</em>",
        "<h2 style='visibility:hidden !important'>EVIL</h2>",
        "<code style='display:/* x */none'>EVIL</code>",
        "<div hidden></section></p></b></table>EVIL</div>",
        "<div hidden><p>EVIL</div>",
        "<section><div hidden><table><tr><td></div>EVIL</table>EVIL</div></section>",
        "<div style=display:none><nav>EVIL</nav>EVIL<svg/>EVIL<br/>EVIL</div>",
        "<img hidden alt=EVIL src=x><input hidden>",
        "<div><span hidden>EVIL</div>",
    ] {
        for style in [Style::Markdown, Style::Plain] {
            let html = format!("{html}<p>ok");
            let text = readable(&html, &base(), style, LIMIT, &in_time).text;
            assert!(
                text.ends_with("ok") && !text.contains("EVIL"),
                "{html}: {text}"
            );
        }
    }
    let deep = format!(
        "<div hidden>{}EVIL{}EVIL</div>ok",
        "<div>".repeat(900),
        "</div>".repeat(900)
    );
    assert_eq!(markdown(&deep), "ok");
    let stray = format!(
        "<div hidden>{}{}{}EVIL",
        "<div>".repeat(900),
        "</b>".repeat(900),
        "</div>".repeat(900)
    );
    assert_eq!(markdown(&stray), "");
    let inner = format!(
        "{}<div hidden>EVIL<div>EVIL</div>EVIL</div>ok<p hidden>EVIL</p>",
        "<div>".repeat(900)
    );
    assert_eq!(markdown(&inner), "ok");
    assert_eq!(markdown("<body style='display:none'>ok"), "ok");
}

#[test]
fn powers_and_indices_are_no_digits() {
    assert_eq!(markdown("10<sup>6</sup> H<sub>2</sub>O"), "10^6 H_2O");
    assert_eq!(
        markdown("2<sup>2<sup>n</sup></sup> e<sup>-x</sup>"),
        "2^(2^n) e^-x"
    );
    assert_eq!(markdown("a<sub>i j</sub><sup></sup>"), "a_(i j)");
    assert_eq!(markdown("so<sup><a href=#n>[1]</a></sup>"), "so[1]");
    assert_eq!(markdown("<pre>10<sup>6</sup></pre>"), "```\n10^6\n```");
    let plain = readable("10<sup>6</sup>", &base(), Style::Plain, LIMIT, &in_time);
    assert_eq!(plain.text, "10^6");
}

#[test]
fn a_formula_keeps_its_text() {
    assert_eq!(
        markdown(
            "<p>Let <math><semantics><mi>x</mi><mo>=</mo><mn>2</mn><annotation>x=2</annotation></semantics></math> be"
        ),
        "Let x=2 be"
    );
    assert_eq!(
        markdown(
            "<math><msup><mi>x</mi><mn>2</mn></msup><mspace/><mo>+</mo><mfrac><mi>a</mi><mi>b</mi></mfrac></math><b>!</b>"
        ),
        "x^2+a/b**!**"
    );
    assert_eq!(
        markdown(
            "<math><msubsup><mi>x</mi><mrow><mi>i</mi><mi>j</mi></mrow><mn>2</mn></msubsup><msqrt><mn>3</mn></msqrt></math>"
        ),
        "x_ij^2√3"
    );
}

#[test]
fn a_list_or_code_in_a_cell_leaves_the_table_one() {
    assert_eq!(
        markdown(
            "<table><tr><th>a<th>b<tr><td><ul><li>one<li>two</ul>end<td><pre>x  =\n  1</pre><tr><td>c<td><blockquote>d</blockquote></table>after"
        ),
        "| a | b |\n| --- | --- |\n| - one - two end | `x = 1` |\n| c | d |\n\nafter"
    );
    // Sites lay out code like this: the numbers of its lines stand beside it.
    assert_eq!(
        markdown(
            "<table><tr><td><pre>1\n2</pre><td><pre><code class=language-c>a\nb</code></pre></table>"
        ),
        "```\n1\n2\n```\n\n```c\na\nb\n```"
    );
    assert_eq!(
        markdown("<ul><li><table><tr><th>a<th>b<tr><td>1<td><ol><li>x</ol></table><li>next</ul>"),
        "- | a | b |\n  | --- | --- |\n  | 1 | 1. x |\n- next"
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
            assert!(readable(&html, &base(), style, LIMIT, &in_time).text.len() <= LIMIT);
        }
        assert!(strip(&html, LIMIT, &in_time).0.len() <= LIMIT);
    }
}

#[test]
fn a_page_that_takes_too_long_is_left_where_it_is() {
    let html = "<p>words".repeat(LIMIT / 100);
    let asked = std::cell::Cell::new(0);
    let late_soon = || asked.replace(asked.get() + 1) > 0;
    let page = readable(&html, &base(), Style::Plain, LIMIT, &late_soon);
    assert_eq!(page.cut, Some(Cut::Time));
    assert!(page.text.starts_with("words") && page.text.len() < html.len());
    asked.set(0);
    let html = "<p>words".repeat(LIMIT / 10);
    let (text, cut) = strip(&html, html.len(), &late_soon);
    assert!(text.starts_with("<p>words<p>") && cut == Some(Cut::Time));
}

#[test]
fn what_runs_is_taken_out_and_the_rest_stays() {
    let html = "<p onclick=x style=y title='a\"b'>1 &lt; 2</p><SCRIPT>if (a < b) {}</script><a href=' JavaScript:x'>l</a>";
    assert_eq!(
        strip(html, LIMIT, &in_time).0,
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
            "<div hidden>", "</div>", "<p hidden>", "<sup>", "</sup>", "<math>", "<msup>", "</math>", "<li hidden>", "<title>", "</title>", "<svg/>", "<script>", "</script>", "<!--", "-->", "\n",
        ]), 0..60))
    {
        let html = pieces.concat();
        for style in [Style::Markdown, Style::Plain] {
            let text = readable(&html, &base(), style, 500, &in_time).text;
            proptest::prop_assert!(text.len() <= 500);
        }
        strip(&html, 500, &in_time);
    }
}
