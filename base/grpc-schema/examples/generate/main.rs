//! Regenerates the committed code of the schema: `make schema`.

mod compile;

use std::{error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    compile::compile(Path::new(compile::COMMITTED))
}
