package gemini

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// part translates one part of the user's, or of a tool's result.
func (e *encoder) part(p *turns.Part) (part, error) {
	switch {
	case p.Type == "text":
		return part{Text: p.Text}, nil
	case p.Type == "image_url" && p.ImageURL != nil:
		e.details = append(e.details, p.ImageURL.Detail)
		return e.image(p.ImageURL.URL, p.Param+".image_url.url")
	case p.Type == "input_audio" && p.InputAudio != nil:
		mimeType := "audio/" + p.InputAudio.Format
		if p.InputAudio.Format == "" {
			mimeType = "audio/wav"
		}
		return part{InlineData: &inlineData{MIMEType: mimeType, Data: p.InputAudio.Data}}, nil
	case p.Type == "file" && p.File != nil:
		return e.file(p.File, p.Param+".file")
	}
	return part{}, openai.BadValue(p.Param+".type", "Content of type '%s' is not supported by the provider '%s'.", p.Type,
		e.Vendor)
}

func (e *encoder) image(uri, param string) (part, error) {
	if mimeType, data, ok := turns.DataURI(uri); ok {
		return part{InlineData: &inlineData{MIMEType: sniff(mimeType, data), Data: data}}, nil
	}
	if !e.isAddress(uri) {
		return part{}, openai.CodeInvalidImageURL.On(param,
			"Invalid '%s': expected an http(s) URL or a base64 data URI.", param)
	}
	mimeType := typeByName(uri)
	if mimeType == "" {
		mimeType = "image/jpeg" // the vendor wants one, and looks for itself
	}
	return part{FileData: &fileData{MIMEType: mimeType, FileURI: uri}}, nil
}

// file translates a file: its content, or where the vendor finds it.
func (e *encoder) file(f *openai.File, param string) (part, error) {
	if f.FileID != "" || e.isAddress(f.FileData) {
		uri := f.FileID
		if uri == "" {
			uri = f.FileData
		}
		if strings.HasPrefix(uri, "files/") && !e.service.Storage {
			uri = filesURI + uri
		}
		if !e.isAddress(uri) {
			return part{}, openai.BadValue(param+".file_id",
				"The file '%s' is not one of the provider '%s'. Send its content as 'file_data'.", f.FileID, e.Vendor)
		}
		mimeType := typeByName(f.Filename)
		if mimeType == "" {
			mimeType = typeByName(uri)
		}
		return part{FileData: &fileData{MIMEType: mimeType, FileURI: uri}}, nil
	}
	mimeType, data, ok := turns.DataURI(f.FileData)
	if !ok {
		if data, ok = turns.Base64(f.FileData); !ok {
			return part{}, openai.CodeInvalidBase64.On(param+".file_data",
				"Invalid '%s.file_data': expected a base64 string or data URI.", param)
		}
	}
	if data == "" {
		return part{}, openai.CodeMissingRequiredParameter.On(param+".file_data",
			"Missing required parameter: '%s.file_data'.", param)
	}
	if mimeType == "" || mimeType == "application/octet-stream" {
		mimeType = typeByName(f.Filename)
	}
	if mimeType = sniff(mimeType, data); mimeType == "" {
		return part{}, openai.BadValue(param+".file_data",
			"The type of the file '%s' is not known. Send 'file_data' as a data URI with its media type, or a 'filename' with an extension.", f.Filename)
	}
	return part{InlineData: &inlineData{MIMEType: mimeType, Data: data}}, nil
}

// filesURI is where AI Studio keeps files.
const filesURI = "https://generativelanguage.googleapis.com/v1beta/"

// isAddress reports whether the vendor can fetch from uri.
func (e *encoder) isAddress(uri string) bool {
	return strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://") || e.service.Storage &&
		strings.HasPrefix(uri, "gs://")
}

// types are the media types that the vendor takes, by the extension of a file's name.
var types = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif",
	".heic": "image/heic",
	".heif": "image/heif", ".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".csv": "text/csv",
	".html": "text/html", ".htm": "text/html", ".css": "text/css", ".xml": "text/xml", ".rtf": "text/rtf",
	".json": "application/json",
	".js":   "text/javascript", ".py": "text/x-python", ".wav": "audio/wav", ".mp3": "audio/mp3", ".aiff": "audio/aiff",
	".aac": "audio/aac", ".ogg": "audio/ogg", ".flac": "audio/flac", ".mp4": "video/mp4", ".mpeg": "video/mpeg",
	".mov": "video/mov",
	".avi": "video/avi", ".webm": "video/webm", ".wmv": "video/wmv", ".3gp": "video/3gpp",
}

// typeByName returns the media type that the name of a file, or its address, tells, or nothing.
func typeByName(name string) string {
	if u, err := url.Parse(name); err == nil {
		name = u.Path
	}
	return types[strings.ToLower(path.Ext(name))]
}

// sniff returns the media type that the first bytes of base64 data say, or else the declared one. Text is found where
// nothing was declared.
func sniff(declared, data string) string {
	head := make([]byte, 48)
	n, _ := base64.StdEncoding.Decode(head, []byte(data[:min(64, len(data)/4*4)])) // what cannot be decoded is not known
	found, _, _ := strings.Cut(http.DetectContentType(head[:n]), ";")
	switch found {
	case "image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf":
		return found
	case "text/plain":
		if declared == "" && n > 0 {
			return found
		}
	}
	return declared
}
