"""Property tests of the REST interface against its OpenAPI document, over a server with the rows of the demo."""
