//! Any schema is taken or refused, and one that is taken judges any value.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: (&str, &str)| {
    let Ok(schema) = serde_json::from_str(input.0) else { return };
    let _ = lmcp_schema::normalise_output(serde_json::Value::clone(&schema));
    let Ok(schema) = lmcp_schema::Schema::compile(&schema) else { return };
    let Ok(value) = serde_json::from_str(input.1) else { return };
    assert_eq!(schema.is_valid(&value), schema.validate(&value).is_ok());
});
