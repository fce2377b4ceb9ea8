//! The documentation, looked at by programs: which pages there are, what their fences and links say, and what a console shows.
//!
//! | module | what |
//! |---|---|
//! | [`pages`] | the pages of the site, from `docs/SUMMARY.md` |
//! | [`fence`] | the fenced blocks of a page, with their attributes |
//! | [`console`] | the commands of a fence, and what they are said to print |
//! | [`expect`] | whether what was printed is what is shown |
//! | [`links`] | where the links of a page lead |
//! | [`book`] | mdBook's chapters, with links that lead to where things are on the site |
//! | [`site`] | the site as it was built: no link of it leads nowhere |
#![forbid(unsafe_code)]

pub mod book;
pub mod console;
pub mod expect;
pub mod fence;
pub mod links;
pub mod pages;
pub mod site;
