//! What `covalent.h` declares.

use std::{fs, path::Path};

/// The header without comments and preprocessor lines.
pub fn code() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/covalent.h");
    let header = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let lines = header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

/// The declarations of functions, without their semicolons.
pub fn functions() -> Vec<String> {
    let code = code();
    let declarations = code.split(';').map(|text| {
        let text = text.trim().trim_start_matches("extern \"C\" {");
        text.trim().to_owned()
    });
    let functions: Vec<_> = declarations
        .filter(|text| text.contains("covalent_") && text.ends_with(')'))
        .collect();
    assert!(functions.len() > 100, "{}", functions.len());
    functions
}

/// The name of the function that is declared.
pub fn name_of(declaration: &str) -> &str {
    let before = declaration.split('(').next().unwrap();
    before.rsplit([' ', '*']).next().unwrap()
}
