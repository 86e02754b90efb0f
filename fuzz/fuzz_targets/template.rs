//! Any template is taken or refused, and no value it finds is a step up.
#![no_main]
use lmcp_core::resource::template::Template;
libfuzzer_sys::fuzz_target!(|input: (&str, &str)| {
    let Ok(template) = Template::parse(input.0) else { return };
    let query = input.0.contains("{?");
    for value in template.matches(input.1).iter().flat_map(|values| values.values()) {
        assert!(query || !value.split('/').any(|segment| segment == ".."));
    }
});
