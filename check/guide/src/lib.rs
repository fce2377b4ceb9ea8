//! Programs that read the documentation: its pages, the contents of their fences and links, and
//! console output.
//!
//! | module | contents |
//! |---|---|
//! | [`pages`] | the pages of the site, from `docs/SUMMARY.md` |
//! | [`fence`] | the fenced blocks of a page, with their attributes |
//! | [`console`] | the commands of a fence, and their output as shown |
//! | [`expect`] | comparison of printed output with a page |
//! | [`links`] | targets of the links of a page |
//! | [`book`] | mdBook's chapters, with links that match the layout of the site |
//! | [`excerpts`] | the programs in the pages, compared with the files that they are parts of |
//! | [`style`] | check of all text in the repository: line lengths, spelling, word list |
//! | [`site`] | check of the built site: every link has a target |
#![forbid(unsafe_code)]

pub mod book;
pub mod console;
pub mod excerpts;
pub mod expect;
pub mod fence;
pub mod links;
pub mod pages;
pub mod site;
pub mod style;
